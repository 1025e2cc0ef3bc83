/* The offset of shard 0's machine's clock from this one's, so that traces of several machines can be laid over each
 * other: asked when this worker's trace is about to be written. Glue. */
#ifndef CLIENT_API_CLOCK_OFFSET_H
#define CLIENT_API_CLOCK_OFFSET_H

#include "client/include/psclient/psclient.h"

/* Within client_enter(). An offset that cannot be learned in a moment stays unknown. */
void clock_offset_learn(ps_client *c);

#endif
