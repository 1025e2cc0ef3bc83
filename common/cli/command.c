/* The usual path: defaults are stored as if they had been written, then each word is looked up and stored. A word that
 * is no option is moved to the front of argv, or, for a command that runs a program, ends the options. */
#include "common/cli/command.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli/completion.h"
#include "common/cli/help.h"
#include "common/cli/man.h"

#define CALLED_MAX 80

const struct option command_own[COMMAND_OWN] = {
    {.name = "help", .kind = OPTION_FLAG, .help = "print this and exit"},
    {.name = "version", .kind = OPTION_FLAG, .help = "print the version and exit"},
};

const struct option *
command_find(const struct command *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->options_len; i++)
        if (strlen(c->options[i].name) == len && memcmp(c->options[i].name, name, len) == 0)
            return &c->options[i];
    return NULL;
}

/* ---- options ---- */

static bool
command_asks(const char *word, enum command_question *asked)
{
    static const struct {
        const char *word;
        enum command_question asked;
    } questions[] = {{"--help", COMMAND_HELP},
                     {"-h", COMMAND_HELP},
                     {"--version", COMMAND_VERSION},
                     {"--man", COMMAND_MAN},
                     {"--completion=bash", COMMAND_BASH},
                     {"--completion=zsh", COMMAND_ZSH}};

    for (size_t i = 0; i < ARRAY_LEN(questions); i++)
        if (strcmp(questions[i].word, word) == 0) {
            *asked = questions[i].asked;
            return true;
        }
    return false;
}

/* The command line that is being parsed. */
struct command_walk {
    const struct command *command;
    int argc, at; /* argv[at] is looked at */
    char **argv;
    command_take take;
    void *arg;
    struct command_line *line;
    struct ps_error *e;
    bool help; /* "help" stood in a command's place: the word after it is the command that is explained */
};

static bool
begins_with_digit(const char *word)
{
    return word != NULL && word[0] != '\0' && strchr("0123456789", word[0]) != NULL;
}

static struct nearest
command_nearest(const struct command *c, const char *name)
{
    struct nearest nearest = nearest_to(name);

    for (size_t i = 0; i < c->options_len; i++)
        nearest_offer(&nearest, c->options[i].name);
    return nearest;
}

const char *
command_meant(const struct command *c, const char *name, const char *before, char out[NEAREST_TEXT_MAX])
{
    struct nearest nearest = command_nearest(c, name);

    return nearest_text(&nearest, before, out);
}

static enum ps_err
refuse_option(const struct command *c, const char *word, struct ps_error *e)
{
    const char *begin = word + strspn(word, "-");
    char name[NEAREST_NAME_MAX + 2], meant[NEAREST_TEXT_MAX];
    struct nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(begin, "="), begin);
    nearest = command_nearest(c, name);
    for (size_t i = 0; i < COMMAND_OWN; i++)
        nearest_offer(&nearest, command_own[i].name);
    return ps_fail(e, PS_ERR_INVALID, "unknown option '%.128s'; %s --help lists them%s", word, c->name,
                   nearest_text(&nearest, "--", meant));
}

/* NULL: there is no such command. */
static const struct subcommand *
command_called(const struct command *c, const char *word)
{
    for (size_t i = 0; i < c->commands_len; i++)
        if (strcmp(c->commands[i].name, word) == 0)
            return &c->commands[i];
    return NULL;
}

/* An option and, when its value is the next word, that too. */
static enum ps_err
walk_option(struct command_walk *w)
{
    const struct command *c = w->command;
    const char *word = w->argv[w->at], *equals = strchr(word, '='), *value = equals != NULL ? equals + 1 : NULL;
    const struct option *o = NULL;

    if (command_asks(word, &w->line->asked)) {
        if (w->line->command == NULL && w->at + 1 < w->argc)
            w->line->command = command_called(c, w->argv[w->at + 1]); /* "psctl --help set" */
        return PS_OK;
    }
    if (word[1] == '-')
        o = command_find(c, word + 2, strcspn(word + 2, "="));
    if (o == NULL)
        return refuse_option(c, word, w->e);
    if (o->kind == OPTION_FLAG && value != NULL)
        return ps_fail(w->e, PS_ERR_INVALID, "--%s takes no value", o->name);
    if (o->bare != NULL && value == NULL && !begins_with_digit(w->at + 1 < w->argc ? w->argv[w->at + 1] : NULL)) {
        value = o->bare;
    } else if (o->kind != OPTION_FLAG && value == NULL) {
        if (w->at + 1 >= w->argc)
            return ps_fail(w->e, PS_ERR_INVALID, "--%s: expected a value (%s) after it", o->name, o->argument);
        value = w->argv[++w->at];
    }
    w->line->given |= UINT64_C(1) << (o - c->options);
    return w->take(w->arg, o, value, w->e);
}

/* ---- words ---- */

/* "expected a command: status, stats or ping" */
static enum ps_err
refuse_command(const struct command *c, const char *what, const char *meant, struct ps_error *e)
{
    char list[256] = "";

    for (size_t i = 0; i < c->commands_len; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
                 i == 0                     ? ""
                 : i + 1 == c->commands_len ? " or "
                                            : ", ",
                 c->commands[i].name);
    return ps_fail(e, PS_ERR_INVALID, "%s: %s%s", what, list, meant);
}

static enum ps_err
walk_command(struct command_walk *w, const char *word)
{
    struct nearest nearest = nearest_to(word);
    const struct command *c = w->command;
    char what[128], meant[NEAREST_TEXT_MAX];

    if ((w->line->command = command_called(c, word)) != NULL)
        return PS_OK;
    for (size_t i = 0; i < c->commands_len; i++)
        nearest_offer(&nearest, c->commands[i].name);
    if (!w->help && strcmp(word, "help") == 0) {
        w->help = true;
        return PS_OK;
    }
    snprintf(what, sizeof what, "unknown command '%.64s', it is one of", word);
    return refuse_command(c, what, nearest_text(&nearest, "", meant), w->e);
}

/* argv[at] is no option, or stands behind them. */
static enum ps_err
walk_word(struct command_walk *w)
{
    const struct command *c = w->command;
    struct command_line *line = w->line;
    char *word = w->argv[w->at];

    if (c->commands_len > 0 && line->command == NULL)
        return walk_command(w, word);
    if (c->commands_len > 0 && (w->help || line->command->operands == NULL))
        return ps_fail(w->e, PS_ERR_INVALID, "unexpected '%.64s' after '%s'; %s help %s says what it takes", word,
                       line->command->name, c->name, line->command->name);
    if (c->commands_len == 0 && c->operands == NULL && strcmp(word, "help") == 0) {
        line->asked = COMMAND_HELP;
        return PS_OK;
    }
    if (c->commands_len == 0 && c->operands == NULL)
        return ps_fail(w->e, PS_ERR_INVALID, "unexpected '%.64s': %s takes options alone, see %s --help", word, c->name,
                       c->name);
    line->words[line->len++] = word;
    return PS_OK;
}

static enum ps_err
walk_check(const struct command_walk *w)
{
    const struct command *c = w->command;
    struct command_line *line = w->line;

    if (c->program || line->len > 0)
        line->words[line->len] = NULL;
    if (c->commands_len == 0)
        return PS_OK;
    if (line->command == NULL)
        return refuse_command(c, "expected a command", "", w->e);
    for (size_t i = 0; i < c->options_len; i++)
        if ((line->given >> i & 1) != 0 && !option_is_for(&c->options[i], line->command->name))
            return ps_fail(w->e, PS_ERR_INVALID, "--%s is not for %s; it is for: %s", c->options[i].name,
                           line->command->name, c->options[i].commands);
    return PS_OK;
}

enum ps_err
command_walk(const struct command *c, int argc, char **argv, command_take take, void *arg, struct command_line *line,
             struct ps_error *e)
{
    struct command_walk w = {
        .command = c, .argc = argc, .at = 1, .argv = argv, .take = take, .arg = arg, .line = line, .e = e};
    bool options = true;
    enum ps_err err = PS_OK;

    ps_assert(c->options_len <= 64);
    *line = (struct command_line){.words = argv + 1};
    for (; err == PS_OK && w.at < argc; w.at++) {
        const char *word = argv[w.at];

        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && word[0] == '-' && word[1] != '\0') {
            err = walk_option(&w);
        } else {
            err = walk_word(&w);
            options = options && !c->program;
        }
        if (line->asked != COMMAND_RUN)
            return err;
    }
    if (err == PS_OK && w.help)
        line->asked = COMMAND_HELP;
    return err != PS_OK || w.help ? err : walk_check(&w);
}

/* ---- settings ---- */

static enum ps_err
command_store(void *settings, const struct option *o, const char *text, struct ps_error *e)
{
    char called[CALLED_MAX];

    snprintf(called, sizeof called, "--%s", o->name);
    return option_store(o, called, text, settings, e);
}

static enum ps_err
command_defaults(const struct command *c, void *settings, struct ps_error *e)
{
    enum ps_err err;

    for (size_t i = 0; i < c->options_len; i++)
        option_clear(&c->options[i], settings);
    for (size_t i = 0; i < c->options_len; i++)
        if (c->options[i].fallback != NULL &&
            (err = command_store(settings, &c->options[i], c->options[i].fallback, e)) != PS_OK)
            return err;
    return PS_OK;
}

enum ps_err
command_parse(const struct command *c, int argc, char **argv, void *settings, struct command_line *line,
              struct ps_error *e)
{
    enum ps_err err = command_defaults(c, settings, e);

    *line = (struct command_line){.words = argv + 1};
    return err != PS_OK ? err : command_walk(c, argc, argv, command_store, settings, line, e);
}

bool
command_given(const struct command *c, const struct command_line *line, const char *name)
{
    const struct option *o = command_find(c, name, strlen(name));

    ps_assert(o != NULL);
    return (line->given >> (o - c->options) & 1) != 0;
}

int
command_answer(const struct command *c, const struct command_line *line, FILE *out)
{
    switch (line->asked) {
    case COMMAND_RUN:
        break;
    case COMMAND_HELP:
        command_help(c, line->command, out);
        break;
    case COMMAND_VERSION:
        fprintf(out, "%s %s\n", c->name, PSD_VERSION);
        break;
    case COMMAND_MAN:
        command_man(c, out);
        break;
    case COMMAND_BASH:
        completion_bash(c, out);
        break;
    case COMMAND_ZSH:
        completion_zsh(c, out);
        break;
    }
    return fflush(out) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
