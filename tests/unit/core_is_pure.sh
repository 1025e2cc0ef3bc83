#!/usr/bin/env bash
# The core does no I/O and takes time and randomness as arguments: its libraries may not ask the linker for libuv, LMDB,
# sockets, files, clocks, random numbers or threads. Arguments: the core's static libraries.
set -euo pipefail

banned='uv_.*|mdb_.*|socket|connect|accept|bind|listen|send(to|msg|mmsg|file)?|recv(from|msg|mmsg)?|open|openat|creat|read|write|readv|writev'
banned+='|fopen|fread|fwrite|poll|select|epoll_.*|clock_gettime|gettimeofday|time|times|getrandom|getentropy|rand|random'
banned+='|drand48|pthread_.*|fork|execv.*|system|getenv_s|sleep|usleep|nanosleep|mmap|ftruncate|fallocate|fsync'

echo "1..$#"
n=0
failed=0
for library in "$@"; do
    n=$((n + 1))
    # Thin archives name their objects relative to the current directory, so look at the archive itself.
    found=$(nm -u "$library" | awk '$1 == "U" {print $2}' | sort -u | grep -Ex "($banned)(@.*)?" || true)
    if [[ -z $found ]]; then
        echo "ok $n - $(basename "$library" .a)_asks_for_no_input_or_output"
    else
        echo "not ok $n - $(basename "$library" .a) asks for: $(echo "$found" | tr '\n' ' ')"
        failed=1
    fi
done
exit "$failed"
