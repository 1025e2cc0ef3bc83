/* psctl's command line as tables: --help, the manual page and completion are made of them. */
#ifndef CLIENT_TOOLS_PSCTL_PSCTL_COMMANDS_H
#define CLIENT_TOOLS_PSCTL_PSCTL_COMMANDS_H

#include "client/tools/psctl/views/render.h"
#include "common/cli/command.h"

/* The questions in the order of enum view_kind, then the others. */
enum psctl_word {
    WORD_TOP = VIEWS,
    WORD_SET,
    WORD_DRAIN,
    WORD_EVICT,
    WORD_DROP,
    WORD_SAVE,
    WORD_VERIFY,
    WORD_CHECKPOINT,
    WORD_RESTORE,
    WORD_EXPORT,
    WORD_IMPORT,
    WORD_SNAPSHOT,
    WORD_BENCH,
    WORD_TRACE,
    WORD_REPLAY,
    WORD_WAIT,
    WORDS
};
extern const struct subcommand psctl_commands[WORDS];
extern const struct command psctl_command;

#endif
