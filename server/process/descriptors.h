/* Open files of this process. Glue; any thread. */
#ifndef SERVER_PROCESS_DESCRIPTORS_H
#define SERVER_PROCESS_DESCRIPTORS_H

#include <stdint.h>

/* How many are open, and how many there may be; 0: not known. To count them takes long. */
uint64_t descriptors_open(void);
uint64_t descriptors_max(void);

#endif
