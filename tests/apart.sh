#!/usr/bin/env bash
# Run a system test by itself, however many others run: apart.sh COMMAND [ARGUMENT...]
#
# It gets a network of its own, where only lo is, and a /dev/shm of its own, as large as what is free in the machine's.
# So no other test takes a port between a shard's end and its restart, or the memory that two shards are to share alike.
# Both end with its last process. Where the kernel refuses them (they need root), the tests take turns instead: one at a
# time.
#
# shellcheck disable=SC2016 # the shells inside expand for themselves
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "apart.sh: expected a command to run, as in tests/apart.sh build/tests/system/test_daemon" >&2
  exit 2
fi
apart=(unshare --net --mount --propagation private sh -c 'ip link set lo up && exec "$@"' sh)
shm=$(df --output=avail -B1 /dev/shm 2>/dev/null | tail -n 1)
if [ "${shm:-0}" -gt 0 ]; then # a tmpfs of size 0 would have no limit
  apart=(unshare --net --mount --propagation private
    sh -c 'ip link set lo up && mount -t tmpfs -o "size=$0,mode=1777" tmpfs /dev/shm && exec "$@"' "$shm")
fi

if [ "$(id -u)" -eq 0 ] && "${apart[@]}" true 2>/dev/null; then
  exec "${apart[@]}" "$@"
fi
turn=${PSD_BUILD_DIR:-${TMPDIR:-/tmp}}/system-test.turn
exec flock --close "$turn" "$@" # closed: what a test leaves behind does not hold it
