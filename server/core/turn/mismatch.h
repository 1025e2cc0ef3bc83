/* Refusals of what is there already and otherwise: they say what differs, and the command that makes room for it. */
#ifndef SERVER_CORE_TURN_MISMATCH_H
#define SERVER_CORE_TURN_MISMATCH_H

#include "common/include/psclient/ps_err.h"

/* PS_ERR_MISMATCH. variable: of the job; NULL: it is the job that differs. had: "was declared with". */
enum ps_err mismatch_refuse(struct ps_error *e, const char *job, const char *variable, const char *had,
                            const char *differences);

#endif
