/* A program's command line, described once: parsing, --help, --version, the man page and the shells' completion come
 * from the same tables (option_row.h has a row of them).
 *
 *     static const struct command tool_command = {
 *         .name = "tool", .manual = 1, .title = "does a thing", .about = "...",
 *         .options = table, .options_len = ARRAY_LEN(table),
 *     };
 *
 *     err = command_parse(&tool_command, argc, argv, &settings, &line, &error);
 *     if (err == PS_OK && line.asked != COMMAND_RUN)
 *         return command_answer(&tool_command, &line, stdout);
 *     if (err != PS_OK) ... print error.text, return EXIT_USAGE
 *
 * Options are written "--name VALUE" or "--name=VALUE"; "--" ends them. Every program also knows --help (-h), --version
 * and, for the build, --man and --completion=bash|zsh; "tool help NAME" and "tool --help NAME", where there are
 * subcommands, are "tool NAME --help"; "tool help", where there are no words at all, is "tool --help". Pure, but for
 * what is written to a stream. */
#ifndef COMMON_CLI_COMMAND_H
#define COMMON_CLI_COMMAND_H

#include <stdio.h>

#include "common/cli/option_row.h"
#include "common/core/base/nearest.h"

#define EXIT_USAGE 2 /* the options or the configuration are wrong */

/* Sections after the options: ENVIRONMENT, EXIT STATUS, EXAMPLES. */
struct command_entry {
    const char *term; /* "PSD_SHARDS"; an example's command; NULL ends a table of them */
    const char *text;
};
struct command_section {
    const char *title; /* "Exit status"; NULL ends a table of them */
    const struct command_entry *entries;
};

/* "status" of "psctl status". Options for some subcommands alone name them, see option_row.h. */
struct subcommand {
    const char *name;
    const char *operands; /* words after it: "SHARD", "NAME=VALUE..."; NULL: it takes none */
    const char *suggest;  /* what completion offers for an operand, separated by blanks; one that ends with '=' goes on
                             with a value */
    bool paths;           /* completion offers files for them, too */
    const char *about;    /* what it does: a sentence without its capital and full stop, or several */
    const struct command_section
        *output; /* what it prints, explained by its help and the manual; NULL: nothing to say */
};

/* Texts are paragraphs, wrapped where they are shown; a line that starts with a blank is shown as it is. */
struct command {
    const char *name;     /* "psrun" */
    int manual;           /* the manual's section: 1, or 8 for daemons */
    const char *title;    /* what it is, for the man page's first line: "start a cluster on this machine" */
    const char *about;    /* before the options */
    const char *operands; /* words that are no options: "program [args]"; NULL: it takes none */
    bool program;         /* the first of them ends the options: a program and its arguments */
    const struct subcommand *commands;
    size_t commands_len;
    const struct option *options;
    size_t options_len; /* 64 at most */
    const char *output; /* before the subcommands' output in the manual; NULL: they have none */
    const struct command_section *sections;
    const char *see_also; /* "psd(8), psctl(1)"; may be NULL */
};

enum command_question { COMMAND_RUN, COMMAND_HELP, COMMAND_VERSION, COMMAND_MAN, COMMAND_BASH, COMMAND_ZSH };

/* The result of parsing besides the settings. */
struct command_line {
    enum command_question asked;      /* what is to be printed instead of running; the rest was then not parsed */
    const struct subcommand *command; /* set when there are subcommands */
    char **words;                     /* operands in order, ended by NULL; in argv, which is reordered */
    int len;
    uint64_t given; /* see command_given() */
};

/* Fill *settings: zero in the table's fields, then defaults, then what is written. PS_ERR_INVALID with a sentence that
 * names the option. */
enum ps_err command_parse(const struct command *c, int argc, char **argv, void *settings, struct command_line *line,
                          struct ps_error *e) PS_MUST_USE;

/* Whether the option of this name was written. */
bool command_given(const struct command *c, const struct command_line *line, const char *name);

/* Print what was asked for. Returns the exit status. */
int command_answer(const struct command *c, const struct command_line *line, FILE *out);

/* ---- for programs that keep values in their own way ---- */

/* The option of that name, of len bytes; NULL when there is none. */
const struct option *command_find(const struct command *c, const char *name, size_t len);

/* "; did you mean --memory?", with this before the option's name; "" when no option is called like that. */
const char *command_meant(const struct command *c, const char *name, const char *before, char out[NEAREST_TEXT_MAX]);

/* As command_parse(), but each option is handed to take() and no default is set. text is NULL for a flag. */
typedef enum ps_err (*command_take)(void *arg, const struct option *o, const char *text, struct ps_error *e);
enum ps_err command_walk(const struct command *c, int argc, char **argv, command_take take, void *arg,
                         struct command_line *line, struct ps_error *e) PS_MUST_USE;

/* --help and --version, which all have: rows for lists of options. */
#define COMMAND_OWN 2
extern const struct option command_own[COMMAND_OWN];

#endif
