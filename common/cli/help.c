#include "common/cli/help.h"

#include <ctype.h>
#include <string.h>

#define HELP_COLUMNS 96
#define HELP_INDENT  26

/* Print words from column `at` on, wrapped, following lines indented. */
static void
help_wrap(FILE *out, const char *text, size_t len, int at, int indent)
{
    int column = at;
    bool first = true;

    for (const char *end = text + len; text < end;) {
        int word = (int)MIN((size_t)(end - text), strcspn(text, " "));

        if (!first && column + 1 + word > HELP_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, (size_t)word, out);
        column += word;
        first = false;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void
help_text(FILE *out, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");

        if (len == 0 || text[0] == ' ')
            fprintf(out, "%.*s\n", (int)len, text);
        else
            help_wrap(out, text, len, 0, 0);
        text += len + (text[len] == '\n');
    }
}

/* `at` columns of a term are printed: the text goes beside it, or below when it is long. */
static void
help_beside(FILE *out, int at, const char *text)
{
    if (at + 2 > HELP_INDENT)
        fprintf(out, "\n%*s", HELP_INDENT, "");
    else
        fprintf(out, "%*s", HELP_INDENT - at, "");
    help_wrap(out, text, strlen(text), HELP_INDENT, HELP_INDENT);
}

static void
help_usage(FILE *out, const struct command *c, const struct subcommand *only)
{
    const char *operands = only != NULL ? only->operands : c->operands;

    fprintf(out, "usage: %s", c->name);
    if (only != NULL)
        fprintf(out, " %s", only->name);
    fprintf(out, " [options]%s", c->program ? " --" : "");
    if (only == NULL && c->commands_len > 0)
        fprintf(out, " command [...]");
    if (operands != NULL)
        fprintf(out, " %s", operands);
    fprintf(out, "\n\n");
}

static void
help_commands(FILE *out, const struct command *c)
{
    if (c->commands_len > 0)
        fprintf(out, "\nCommands:\n");
    for (size_t i = 0; i < c->commands_len; i++) {
        const struct subcommand *s = &c->commands[i];

        help_beside(
            out,
            fprintf(out, "  %s%s%s", s->name, s->operands != NULL ? " " : "", s->operands != NULL ? s->operands : ""),
            s->about);
    }
}

static void
help_option(FILE *out, const struct option *o, const struct subcommand *only)
{
    char text[OPTION_TEXT_MAX], form[OPTION_FORM_MAX];
    int at = fprintf(out, "  --%s%s", o->name, option_form(o, form));

    help_beside(out, at, option_text(o, only != NULL ? only->name : NULL, text));
}

static void
help_options(FILE *out, const struct command *c, const struct subcommand *only)
{
    const char *section = "Options", *printed = NULL;

    for (size_t i = 0; i < c->options_len; i++) {
        if (c->options[i].section != NULL)
            section = c->options[i].section;
        if (only != NULL && !option_is_for(&c->options[i], only->name))
            continue;
        if (printed != section)
            fprintf(out, "\n%s:\n", section);
        printed = section;
        help_option(out, &c->options[i], only);
    }
    if (printed == NULL)
        fprintf(out, "\nOptions:\n");
    for (size_t i = 0; i < COMMAND_OWN; i++)
        help_option(out, &command_own[i], only);
}

static void
help_section(FILE *out, const struct command_section *s)
{
    fprintf(out, "\n%s:\n", s->title);
    for (const struct command_entry *entry = s->entries; entry->term != NULL; entry++)
        help_beside(out, fprintf(out, "  %s", entry->term), entry->text);
}

/* A text of a list, which has no capital and full stop. */
static void
help_sentence(FILE *out, const char *text)
{
    char whole[OPTION_TEXT_MAX];

    snprintf(whole, sizeof whole, "%c%s.", toupper((unsigned char)text[0]), text + 1);
    help_wrap(out, whole, strlen(whole), 0, 0);
}

void
command_help(const struct command *c, const struct subcommand *only, FILE *out)
{
    help_usage(out, c, only);
    if (only != NULL)
        help_sentence(out, only->about);
    else
        help_text(out, c->about);
    if (only == NULL)
        help_commands(out, c);
    help_options(out, c, only);
    for (const struct command_section *s = only != NULL ? only->output : c->sections; s != NULL && s->title != NULL;
         s++)
        help_section(out, s);
}
