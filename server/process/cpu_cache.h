/* The size of the processor's last cache. Glue: Linux has it in files.
 *
 * Not sysconf(_SC_LEVEL3_CACHE_SIZE): of AMD's processors it is the sum over a socket's chiplets (320 MiB where ten of
 * them have 32 each), and what one core can use is the cache of its own.
 *
 * It is cpu0's, whichever core psd runs on: where cores have caches of different sizes, or psd is bound to others,
 * their caches may be larger or smaller. */
#ifndef SERVER_PROCESS_CPU_CACHE_H
#define SERVER_PROCESS_CPU_CACHE_H

#include "common/core/base/base.h"

#define CPU_CACHE_DIR "/sys/devices/system/cpu/cpu0/cache"

/* Bytes, of the cache of the highest level that is described in dir (sysfs-devices-system-cpu's index0, index1, ...);
 * without one, sysconf()'s figure for the third level; 0: not known. */
uint64_t cpu_cache_bytes(const char *dir);

#endif
