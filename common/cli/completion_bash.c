/* The script that bash sources: one function, which looks at COMP_WORDS and fills COMPREPLY. It needs nothing but bash;
 * for a program's own arguments it uses bash-completion, where that is loaded.
 *
 * bash takes "--name=value" for three words, so a value follows either its option or a lone "=". */
#include <string.h>

#include "common/cli/completion.h"

static bool
is_path(const struct option *o)
{
    return o->kind == OPTION_FILE || o->kind == OPTION_DIRECTORY;
}

static bool
needs_value(const struct option *o)
{
    return o->kind != OPTION_FLAG && o->bare == NULL;
}

static bool
may_have_value(const struct option *o)
{
    return o->bare != NULL;
}

static bool
takes_unknown(const struct option *o)
{
    return needs_value(o) && o->choices == NULL && o->suggest == NULL && !is_path(o);
}

/* "--a|--b) what" for the wanted options; nothing when there are none. */
static void
bash_case(FILE *out, const struct command *c, bool (*wanted)(const struct option *o), const char *what)
{
    bool any = false;

    for (size_t i = 0; i < c->options_len; i++) {
        if (!wanted(&c->options[i]))
            continue;
        fprintf(out, "%s--%s", any ? "|" : "            ", c->options[i].name);
        any = true;
    }
    if (any)
        fprintf(out, ")\n%s", what);
}

static void
bash_option_names(FILE *out, const struct command *c, const char *command)
{
    for (size_t i = 0; i < c->options_len; i++)
        if (option_is_for(&c->options[i], command))
            fprintf(out, "--%s ", c->options[i].name);
    for (size_t i = 0; i < COMMAND_OWN; i++)
        fprintf(out, "--%s%s", command_own[i].name, i + 1 < COMMAND_OWN ? " " : "");
}

/* The words that may follow the option. */
static void
bash_value(FILE *out, const struct option *o)
{
    if (o->choices == NULL && o->suggest == NULL && !is_path(o))
        return;
    fprintf(out, "            --%s)\n", o->name);
    if (o->suggest != NULL) {
        fprintf(out, "                mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n", o->suggest);
    } else if (o->choices != NULL) {
        fprintf(out, "                mapfile -t COMPREPLY < <(compgen -W '");
        for (const struct option_choice *choice = o->choices; choice->name != NULL; choice++)
            fprintf(out, "%s%s", choice == o->choices ? "" : " ", choice->name);
        fprintf(out, "' -- \"$cur\")\n");
    } else {
        fprintf(out, "                compopt -o filenames 2>/dev/null\n");
        fprintf(out, "                mapfile -t COMPREPLY < <(compgen %s -- \"$cur\")\n",
                o->kind == OPTION_DIRECTORY ? "-d" : "-f");
    }
    fprintf(out, "                return ;;\n");
}

static void
bash_values(FILE *out, const struct command *c)
{
    fprintf(out, "    case $prev in\n");
    for (size_t i = 0; i < c->options_len; i++)
        bash_value(out, &c->options[i]);
    bash_case(out, c, takes_unknown, "                return ;;\n");
    fprintf(out, "    esac\n"
                 "    ((valued)) && return\n");
}

/* The first word that is neither an option nor a value: its number in `at`, COMP_CWORD when there is none. */
static void
bash_find_word(FILE *out, const struct command *c)
{
    fprintf(out, "    for ((at = 1; at < COMP_CWORD; at++)); do\n"
                 "        case ${COMP_WORDS[at]} in\n");
    bash_case(out, c, needs_value,
              "                [[ ${COMP_WORDS[at + 1]} == '=' ]] && ((at++))\n"
              "                ((at++)) ;;\n");
    bash_case(out, c, may_have_value,
              "                [[ ${COMP_WORDS[at + 1]} == '=' ]] && ((at++))\n"
              "                [[ ${COMP_WORDS[at]} == '=' || ${COMP_WORDS[at + 1]} == [0-9]* ]] && ((at++)) ;;\n");
    fprintf(out, "            --)\n"
                 "                ((at++))\n"
                 "                dashes=1\n"
                 "                break ;;\n"
                 "            -*) ;;\n"
                 "            *) break ;;\n"
                 "        esac\n"
                 "    done\n");
}

static void
bash_options(FILE *out, const struct command *c)
{
    fprintf(out, "    options='");
    bash_option_names(out, c, NULL);
    fprintf(out, "'\n");
    if (c->commands_len == 0)
        return;
    fprintf(out, "    ((at < COMP_CWORD)) && case ${COMP_WORDS[at]} in\n");
    for (size_t i = 0; i < c->commands_len; i++) {
        fprintf(out, "        %s) options='", c->commands[i].name);
        bash_option_names(out, c, c->commands[i].name);
        fprintf(out, "' ;;\n");
    }
    fprintf(out, "    esac\n");
}

/* A program and its arguments: as bash would complete them if they stood alone. */
static void
bash_program(FILE *out)
{
    fprintf(out, "    if ((at < COMP_CWORD)) && declare -F _command_offset >/dev/null; then\n"
                 "        _command_offset \"$at\"\n"
                 "        return\n"
                 "    fi\n"
                 "    if ((at < COMP_CWORD)); then\n"
                 "        compopt -o filenames 2>/dev/null\n"
                 "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                 "        return\n"
                 "    fi\n");
}

/* The beginnings of a subcommand's operands, where a value follows one that ends with '='; or paths. */
static void
bash_operands(FILE *out, const struct command *c)
{
    for (size_t i = 0; i < c->commands_len; i++) {
        const struct subcommand *s = &c->commands[i];

        if (s->suggest == NULL && !s->paths)
            continue;
        fprintf(out,
                "    elif [[ ${COMP_WORDS[at]} == '%s' ]]; then\n"
                "        compopt -o %s 2>/dev/null\n"
                "        mapfile -t COMPREPLY < <(compgen %s-W '%s' -- \"$cur\")\n",
                s->name, s->paths ? "filenames" : "nospace", s->paths ? "-f " : "",
                s->suggest != NULL ? s->suggest : "");
    }
}

void
completion_bash(const struct command *c, FILE *out)
{
    fprintf(out,
            "# bash completion for %s, written by %s --completion=bash\n"
            "\n"
            "_%s()\n"
            "{\n"
            "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} options at dashes=0 valued=0\n"
            "    local IFS=$' \\t\\n'\n"
            "\n"
            "    COMPREPLY=()\n",
            c->name, c->name, c->name);
    bash_find_word(out, c);
    if (c->program)
        bash_program(out);
    fprintf(out, "    if [[ $cur == '=' ]]; then\n"
                 "        cur='' valued=1\n"
                 "    elif [[ $prev == '=' ]]; then\n"
                 "        prev=${COMP_WORDS[COMP_CWORD - 2]} valued=1\n"
                 "    fi\n");
    bash_values(out, c);
    bash_options(out, c);
    fprintf(out, "    if ((!dashes)) && [[ $cur == -* ]]; then\n"
                 "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n");
    if (c->program)
        fprintf(out, "    else\n"
                     "        mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n");
    if (c->commands_len > 0) {
        fprintf(out, "    elif ((at >= COMP_CWORD)); then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W '");
        for (size_t i = 0; i < c->commands_len; i++)
            fprintf(out, "%s%s", i > 0 ? " " : "", c->commands[i].name);
        fprintf(out, "' -- \"$cur\")\n");
        bash_operands(out, c);
    }
    fprintf(out,
            "    fi\n"
            "}\n"
            "complete -F _%s %s\n",
            c->name, c->name);
}
