#include "common/cli/man.h"

#include <ctype.h>
#include <string.h>

/* When these texts were last revised. A build's own date would make each build different. */
#define MAN_DATE "2026-11-21"

/* ---- text ---- */

/* Literal text: nothing in it has a meaning to roff, and a dash stays the typed one. */
static void
man_plain(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

static void
man_font(FILE *out, char font, const char *text, size_t len)
{
    fprintf(out, "\\f%c", font);
    man_plain(out, text, len);
    fputs("\\fR", out);
}

static void
man_bold(FILE *out, const char *text)
{
    man_font(out, 'B', text, strlen(text));
}

/* How long an option's name that begins here is; 0 when none does. */
static size_t
man_option_len(const char *text, size_t len)
{
    size_t n = 2;

    if (len < 3 || text[0] != '-' || text[1] != '-' || !islower((unsigned char)text[2]))
        return 0;
    while (n < len && (islower((unsigned char)text[n]) || (text[n] == '-' && n + 1 < len && islower(text[n + 1]))))
        n++;
    return n;
}

/* One line: the names of options in bold. */
static void
man_line(FILE *out, const char *text, size_t len)
{
    size_t plain = 0;

    for (size_t i = 0; i < len; i++) {
        size_t n = i == 0 || !isalnum((unsigned char)text[i - 1]) ? man_option_len(text + i, len - i) : 0;

        if (n == 0)
            continue;
        man_plain(out, text + plain, i - plain);
        man_font(out, 'B', text + i, n);
        plain = i + n;
        i = plain - 1;
    }
    man_plain(out, text + plain, len - plain);
    fputc('\n', out);
}

/* Paragraphs; lines that start with a blank as they are. */
static void
man_text(FILE *out, const char *text)
{
    bool as_is = false;

    for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        if (as_is != (text[0] == ' '))
            fputs(as_is ? ".fi\n.RE\n" : ".PP\n.RS 4\n.nf\n", out);
        as_is = text[0] == ' ';
        if (len == 0 && text[1] != ' ' && text[1] != '\0')
            fputs(".PP\n", out);
        if (as_is)
            man_plain(out, text + strspn(text, " "), len - strspn(text, " "));
        else if (len > 0)
            man_line(out, text, len);
        if (as_is)
            fputc('\n', out);
    }
    if (as_is)
        fputs(".fi\n.RE\n", out);
}

/* ---- sections ---- */

static void
man_title(FILE *out, const char *title)
{
    fputs(".SH ", out);
    for (; *title != '\0'; title++)
        fputc(toupper((unsigned char)*title), out);
    fputc('\n', out);
}

static void
man_head(FILE *out, const struct command *c)
{
    fputs(".TH ", out);
    for (const char *at = c->name; *at != '\0'; at++)
        fputc(toupper((unsigned char)*at), out);
    fprintf(out, " %d " MAN_DATE " \"psd " PSD_VERSION "\" \"psd\"\n", c->manual);
    fprintf(out, ".SH NAME\n%s \\- ", c->name);
    man_line(out, c->title, strlen(c->title));
    fprintf(out, ".SH SYNOPSIS\n\\fB%s\\fR [\\fIoptions\\fR]", c->name);
    if (c->commands_len > 0)
        fputs(" \\fIcommand\\fR [...]", out);
    if (c->program)
        fputs(" \\fB\\-\\-\\fR", out);
    if (c->operands != NULL) {
        fputc(' ', out);
        man_font(out, 'I', c->operands, strlen(c->operands));
    }
    fputs("\n.SH DESCRIPTION\n", out);
    man_text(out, c->about);
}

/* The line under .TP: a name, and what follows it. */
static void
man_term(FILE *out, const char *name, const char *form)
{
    fputs(".TP\n", out);
    man_bold(out, name);
    if (*form == ' ')
        fputc(*form++, out);
    if (*form != '\0')
        man_font(out, 'I', form, strlen(form));
    fputc('\n', out);
}

static void
man_commands(FILE *out, const struct command *c)
{
    char form[128];

    if (c->commands_len > 0)
        man_title(out, "Commands");
    for (size_t i = 0; i < c->commands_len; i++) {
        const char *operands = c->commands[i].operands;

        snprintf(form, sizeof form, "%s%s", operands != NULL ? " " : "", operands != NULL ? operands : "");
        man_term(out, c->commands[i].name, form);
        man_line(out, c->commands[i].about, strlen(c->commands[i].about));
    }
}

static void
man_option(FILE *out, const struct option *o)
{
    char text[OPTION_TEXT_MAX], name[80], form[OPTION_FORM_MAX];

    snprintf(name, sizeof name, "--%s", o->name);
    man_term(out, name, option_form(o, form));
    option_text(o, NULL, text);
    man_line(out, text, strlen(text));
}

static void
man_options(FILE *out, const struct command *c)
{
    man_title(out, "Options");
    for (size_t i = 0; i < c->options_len; i++) {
        if (c->options[i].section != NULL)
            fprintf(out, ".SS %s\n", c->options[i].section);
        man_option(out, &c->options[i]);
    }
    for (size_t i = 0; i < COMMAND_OWN; i++)
        man_option(out, &command_own[i]);
}

static void
man_entries(FILE *out, const struct command_entry *entry)
{
    for (; entry->term != NULL; entry++) {
        man_term(out, entry->term, "");
        man_line(out, entry->text, strlen(entry->text));
    }
}

static void
man_section(FILE *out, const struct command_section *s)
{
    man_title(out, s->title);
    man_entries(out, s->entries);
}

static void
man_output(FILE *out, const struct command *c)
{
    if (c->output == NULL)
        return;
    man_title(out, "Output");
    man_text(out, c->output);
    for (size_t i = 0; i < c->commands_len; i++)
        for (const struct command_section *s = c->commands[i].output; s != NULL && s->title != NULL; s++) {
            fprintf(out, ".SS %s\n", s->title);
            man_entries(out, s->entries);
        }
}

void
command_man(const struct command *c, FILE *out)
{
    man_head(out, c);
    man_commands(out, c);
    man_options(out, c);
    man_output(out, c);
    for (const struct command_section *s = c->sections; s != NULL && s->title != NULL; s++)
        man_section(out, s);
    if (c->see_also == NULL)
        return;
    man_title(out, "See also");
    man_line(out, c->see_also, strlen(c->see_also));
}
