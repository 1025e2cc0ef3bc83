/* How large the processor's last cache is. Glue: Linux says it in files.
 *
 * Not sysconf(_SC_LEVEL3_CACHE_SIZE): of AMD's processors it is the sum over a socket's chiplets (320 MiB where ten of
 * them have 32 each), and what one core can use is the cache of its own.
 *
 * It is cpu0's, whichever core psd runs on: where cores have caches of different sizes, or psd is bound to others, what
 * its own have may be more or less. */
#ifndef SERVER_CPU_CACHE_H
#define SERVER_CPU_CACHE_H

#include "common/core/base/base.h"

#define CPU_CACHE_DIR "/sys/devices/system/cpu/cpu0/cache"

/* Bytes, of the cache of the highest level that is described in dir (sysfs-devices-system-cpu's index0, index1, ...);
 * where none is, what sysconf() says of the third; 0: not known. */
uint64_t cpu_cache_bytes(const char *dir);

#endif
