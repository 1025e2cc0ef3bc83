/* Completion for shells: scripts made from a command's tables. They know subcommands, the options that are for each,
 * choices, and where a path is expected. */
#ifndef COMMON_CLI_COMPLETION_H
#define COMMON_CLI_COMPLETION_H

#include "common/cli/command.h"

void completion_bash(const struct command *c, FILE *out);
void completion_zsh(const struct command *c, FILE *out);

#endif
