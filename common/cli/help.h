/* --help: the text of a command's tables, for a terminal. */
#ifndef COMMON_CLI_HELP_H
#define COMMON_CLI_HELP_H

#include "common/cli/command.h"

/* All of the command, or, when only is not NULL, that subcommand with the options that are for it. */
void command_help(const struct command *c, const struct subcommand *only, FILE *out);

#endif
