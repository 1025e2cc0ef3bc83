/* The script that zsh loads as _NAME: zsh's own _arguments does the work, with one line for each option. */
#include <string.h>

#include "common/cli/completion.h"

/* The beginning of a sentence, for a place in single quotes where `special` means something to _arguments. */
static void
zsh_text(FILE *out, const char *text, const char *special)
{
    size_t len = strcspn(text, ":;(");

    while (len > 0 && text[len - 1] == ' ')
        len--;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\'')
            fputs("'\\'", out);
        else if (strchr(special, text[i]) != NULL)
            fputc('\\', out);
        fputc(text[i], out);
    }
}

static void
zsh_value(FILE *out, const struct option *o)
{
    fputc(':', out);
    zsh_text(out, o->argument, ":\\");
    fputc(':', out);
    if (o->kind == OPTION_FILE)
        fputs("_files", out);
    else if (o->kind == OPTION_DIRECTORY)
        fputs("_files -/", out);
    else if (o->suggest != NULL)
        fprintf(out, "(%s)", o->suggest);
    else if (o->choices != NULL) {
        for (const struct option_choice *choice = o->choices; choice->name != NULL; choice++)
            fprintf(out, "%c%s", choice == o->choices ? '(' : ' ', choice->name);
        fputc(')', out);
    }
}

static void
zsh_option(FILE *out, const struct option *o)
{
    bool many = o->kind == OPTION_LIST || (o->traits & OPTION_REPEATS) != 0;

    fprintf(out, "        '%s--%s%s[", many ? "*" : "", o->name,
            o->argument == NULL ? ""
            : o->bare != NULL   ? "=-"
                                : "=");
    zsh_text(out, o->help, "[]\\");
    fputc(']', out);
    if (o->bare != NULL)
        fputc(':', out);
    if (o->argument != NULL)
        zsh_value(out, o);
    fputs("'\n", out);
}

static void
zsh_commands(FILE *out, const struct command *c)
{
    fprintf(out, "    commands=(\n");
    for (size_t i = 0; i < c->commands_len; i++) {
        fprintf(out, "        '%s:", c->commands[i].name);
        zsh_text(out, c->commands[i].about, ":\\");
        fprintf(out, "'\n");
    }
    fprintf(out, "    )\n");
}

/* Subcommands, and what the operands of each may begin with. */
static void
zsh_operands(FILE *out, const struct command *c)
{
    fprintf(out, "    [[ $state == command ]] && _describe command commands\n"
                 "    [[ $state == operand ]] && case $line[1] in\n");
    for (size_t i = 0; i < c->commands_len; i++)
        if (c->commands[i].suggest != NULL)
            fprintf(out,
                    c->commands[i].paths ? "        %s) compadd -- %s; _files ;;\n"
                                         : "        %s) compadd -S '' -- %s ;;\n",
                    c->commands[i].name, c->commands[i].suggest);
    fprintf(out, "        *) _default ;;\n"
                 "    esac\n");
}

void
completion_zsh(const struct command *c, FILE *out)
{
    fprintf(out,
            "#compdef %s\n"
            "# zsh completion for %s, written by %s --completion=zsh\n"
            "\n"
            "_%s()\n"
            "{\n"
            "    local curcontext=$curcontext state state_descr line\n"
            "    typeset -A opt_args\n"
            "    local -a commands options\n"
            "\n",
            c->name, c->name, c->name, c->name);
    if (c->commands_len > 0)
        zsh_commands(out, c);
    fprintf(out, "    options=(\n");
    for (size_t i = 0; i < c->options_len; i++)
        zsh_option(out, &c->options[i]);
    for (size_t i = 0; i < COMMAND_OWN; i++)
        zsh_option(out, &command_own[i]);
    if (c->commands_len > 0)
        fprintf(out, "        '1:command:->command'\n"
                     "        '*:operand:->operand'\n");
    else if (c->program)
        fprintf(out, "        '(-)1:program:_command_names -e'\n"
                     "        '*::arguments:_normal'\n");
    fprintf(out,
            "    )\n"
            "    _arguments -C%s $options && return\n",
            c->program ? " -S" : "");
    if (c->commands_len > 0)
        zsh_operands(out, c);
    fprintf(out,
            "}\n"
            "\n"
            "_%s \"$@\"\n",
            c->name);
}
