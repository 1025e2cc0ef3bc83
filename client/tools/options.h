/* Command lines of the tools: one table drives parsing and --help, and a default is written once, as the text that both
 * use. Pure, but for options_help(), which writes to a stream.
 *
 *     struct settings { int64_t workers; bool json; const char *job; struct option_list env; } settings;
 *     static const struct option table[] = {
 *         {.name = "workers", .kind = OPTION_INT, .argument = "N", .fallback = "2", .min = 1, .max = 1024,
 *          .offset = offsetof(struct settings, workers), .help = "how many worker processes to start"},
 *         ...
 *     };
 *     err = options_parse(&command, argc, argv, &settings, &rest, &error);
 *
 * Written "--name VALUE" or "--name=VALUE"; "--" ends the options. Texts are borrowed from argv or from the table. */
#ifndef CLIENT_TOOLS_OPTIONS_H
#define CLIENT_TOOLS_OPTIONS_H

#include <stdio.h>

#include "common/base.h"
#include "ps_err.h"

enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_INT,     /* int64_t, min to max */
    OPTION_SECONDS, /* int64_t, milliseconds; written as seconds, "0.5" */
    OPTION_TEXT,    /* const char *, NULL when not given and without fallback */
    OPTION_LIST     /* struct option_list; may be given many times */
};

#define OPTION_LIST_MAX 64
struct option_list {
    const char *text[OPTION_LIST_MAX];
    size_t len;
};

struct option {
    const char *name; /* without dashes */
    enum option_kind kind;
    const char *argument; /* what --help calls the value: "N"; NULL for a flag */
    const char *fallback; /* the default as one would write it; NULL: none */
    int64_t min, max;     /* of an INT; of SECONDS in milliseconds */
    size_t offset;        /* of the field in the settings */
    const char *help;     /* one or more sentences, wrapped by options_help() */
};

struct option_command {
    const char *name;  /* "psrun" */
    const char *usage; /* what follows the name */
    const char *about; /* paragraphs before the options; a line that starts with a blank is printed as it is */
    const char *after; /* and after them; may be NULL */
    const struct option *options;
    size_t options_len;
    bool program; /* the first word that is no option ends them: the rest is a program and its arguments */
};

/* The words that were no options, in order: borrowed pointers into argv. */
struct option_rest {
    char **words; /* points into argv, which options_parse() reorders */
    int len;
};

/* Fill *settings (zeroed here for the fields of the table, then defaults, then argv). PS_ERR_INVALID with a sentence
 * that names the option. *help is set when --help or -h was given; the rest is then not looked at. */
enum ps_err options_parse(const struct option_command *command, int argc, char **argv, void *settings,
                          struct option_rest *rest, bool *help, struct ps_error *e) PS_MUST_USE;

/* Everything about the command: usage, paragraphs, each option with its default. */
void options_help(const struct option_command *command, FILE *out);

#endif
