/* One option of a command line: a row of a table that parsing, --help, the man page and the shells' completion all
 * read. A default is written once, as the text that one would write. Pure.
 *
 *     struct bench_options { int64_t workers, wait_ms; bool json; const char *job; struct option_list env; };
 *     static const struct option table[] = {
 *         {.name = "workers", .kind = OPTION_INT, .argument = "N", .fallback = "2", .min = 1, .max = 1024,
 *          .offset = offsetof(struct bench_options, workers), .help = "how many worker processes to start"},
 *         ...
 *     };
 *
 * Texts are borrowed: from the table, from argv or from the caller of option_store(). */
#ifndef COMMON_CLI_OPTION_ROW_H
#define COMMON_CLI_OPTION_ROW_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* The type of each kind's field follows it. An int64_t whose min is not negative may also be an uint64_t, and an int an
 * enum. */
enum option_kind {
    OPTION_FLAG,      /* bool */
    OPTION_INT,       /* int64_t, min to max */
    OPTION_REAL,      /* double, low to high */
    OPTION_POSITIVE,  /* double, above 0 */
    OPTION_MODE,      /* int64_t, min to max: permissions, octal */
    OPTION_SIZE,      /* int64_t, bytes, min to max: "64MiB" */
    OPTION_SECONDS,   /* int64_t, milliseconds, min to max: "5s", "500ms"; a bare number is seconds: "0.5" */
    OPTION_MS,        /* the same; a bare number is milliseconds */
    OPTION_US,        /* int64_t, microseconds, min to max; a bare number is microseconds */
    OPTION_TEXT,      /* const char *, as the five below: NULL when not given and without fallback */
    OPTION_NAME,      /* not empty */
    OPTION_FILE,      /* a path, not empty */
    OPTION_DIRECTORY, /* the same */
    OPTION_ADDRESS,   /* host:port, [v6]:port or unix:/path, checked */
    OPTION_ADDRESSES, /* several, separated by commas; or one of choices */
    OPTION_CHOICE,    /* int: the number of one of choices */
    OPTION_LIST       /* struct option_list; may be given many times */
};

struct option_choice {
    const char *name; /* NULL ends a table of them */
    int value;
};

#define OPTION_LIST_MAX 64
struct option_list {
    const char *text[OPTION_LIST_MAX];
    size_t len;
};

/* Properties of an option for psd's configuration file and for a reload. */
enum option_traits {
    OPTION_RELOADS = 1,   /* taken over on SIGHUP */
    OPTION_REPEATS = 2,   /* given again, it is added with a comma */
    OPTION_ARGS_ONLY = 4, /* not in the file */
    OPTION_ZERO = 8       /* 0 is taken as well as the range: help says what it means */
};

struct option {
    const char *name; /* without dashes */
    enum option_kind kind;
    const char *argument; /* what --help calls the value: "N"; NULL for a flag */
    const char *fallback; /* the default as one would write it; NULL: none */
    const char *bare;     /* what the option means without a value; the next word is one when it begins with a digit.
                             NULL: it needs one */
    const char *usual;    /* the default in words, where fallback does not say it */
    int64_t min, max;     /* in the field's unit; max 0: no upper end */
    double low, high;     /* of a REAL; high 0: no upper end */
    size_t offset;        /* of the field in the settings */
    const struct option_choice *choices;
    const char *suggest;  /* what completion offers for the value, separated by blanks; others are taken, too */
    const char *section;  /* begins a section of --help with this title */
    const char *commands; /* the subcommands that it is for, separated by blanks; NULL: all */
    int traits;
    const char *help; /* what it does: a sentence without its capital and full stop, or several */
};

/* Store the text's value. called: the option's name in an error's sentence, "--grace" or "psd.conf:3: grace"; the rest
 * of the sentence says what was expected and what was given. PS_ERR_INVALID. */
enum ps_err option_store(const struct option *o, const char *called, const char *text, void *settings,
                         struct ps_error *e) PS_MUST_USE;

/* Zero the field. */
void option_clear(const struct option *o, void *settings);

/* Whether it is for this subcommand. NULL: true. */
bool option_is_for(const struct option *o, const char *command);

/* The form of its value: " N", "[=N]" when it may be left out, "" for a flag. Into text. */
#define OPTION_FORM_MAX 64
const char *option_form(const struct option *o, char text[OPTION_FORM_MAX]);

/* The option's description: the subcommands that it is for, unless this is the help of one, help, and "(default 5s;
 * without a unit: milliseconds; read again on SIGHUP)". Into text. */
#define OPTION_TEXT_MAX 2048
const char *option_text(const struct option *o, const char *command, char text[OPTION_TEXT_MAX]);

#endif
