/* The man page, in roff with man(7)'s macros: the text of a command's tables, for a manual. */
#ifndef COMMON_CLI_MAN_H
#define COMMON_CLI_MAN_H

#include "common/cli/command.h"

void command_man(const struct command *c, FILE *out);

#endif
