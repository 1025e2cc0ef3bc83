#!/usr/bin/env bash
# psd as a service, as far as can be seen without one: systemd's own checks of the units, and the properties that the
# units rely on, with psd started the way systemd does. test_boot.sh tests the whole. Prints TAP; tap.sh says which
# executables are used.
#
# Helpers are called by name (SC2317); shells inside expand for themselves (SC2016).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
BITS=${PSD_BUILD_DIR:-$build}/tests/system/bits
EXPOSURE_MAX=15 # tenths, of 100; systemd calls up to 20 "OK"
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER RUNTIME_DIRECTORY NOTIFY_SOCKET WATCHDOG_USEC
try() { "$@" >"$work/out" 2>"$work/err" </dev/null; }

# ---- the units ----

# The units name the programs' installed paths; systemd requires the files.
mkdir "$work/units"
sed "s,^ExecStart=[^ ]*,ExecStart=$(command -v "$PSD_BIN")," "${PSD_BUILD_DIR:-$build}/deploy/psd@.service" >"$work/units/psd@.service"
cp "$work/units/psd@.service" "$work/units/psd@0.service"
cp "$source"/deploy/systemd/{psd.target,psd@.socket,psd-http@.socket,run-psd.mount} "$work/units/"
cp "$work/units/psd@.socket" "$work/units/psd@0.socket"
cp "$work/units/psd-http@.socket" "$work/units/psd-http@0.socket"

if ! command -v systemd-analyze >/dev/null; then
  skip "systemd finds nothing wrong with the units" "systemd is not installed"
  skip "and little that psd could do to the host" "systemd is not installed"
else
  try systemd-analyze verify --man=no --recursive-errors=no "$work"/units/{psd@0.service,psd@0.socket,psd-http@0.socket,psd.target,run-psd.mount} &&
    ! grep -F "$work" "$work/err" >/dev/null
  ok $? "systemd finds nothing wrong with the units"
  if systemd-analyze security --help | grep -e --offline >/dev/null; then
    try systemd-analyze security --offline=yes --no-pager --threshold="$EXPOSURE_MAX" "$work/units/psd@0.service"
    ok $? "and little that psd could do to the host: $(sed -n 's/.*exposure level.*: \([0-9.]*\).*/\1 of 10/p' "$work/out")"
  else
    skip "and little that psd could do to the host" "this systemd looks at no files"
  fi
fi

# Of a root that is not running systemctl makes and removes the links alone.
if command -v systemctl >/dev/null; then
  mkdir -p "$work"/root/{etc,usr/lib}/systemd/system
  cp "$work"/units/{psd@.service,psd@.socket,psd.target} "$work/root/usr/lib/systemd/system/"
  enabled() { [ "$(systemctl --root="$work/root" is-enabled "$@" 2>/dev/null | sort -u)" = enabled ]; }
  try systemctl --root="$work/root" enable psd.target psd@0 psd@1 && enabled psd.target psd@0 psd@1
  ok $? "shards and their target are enabled"
  try systemctl --root="$work/root" disable psd@1 && enabled psd.target psd@0 && ! enabled psd@1
  ok $? "one shard can be taken out of the boot without the others"
  try systemctl --root="$work/root" enable psd@0.socket && enabled psd@0.socket psd@0 &&
    try systemctl --root="$work/root" disable psd@0.socket && enabled psd@0 && ! enabled psd@0.socket
  ok $? "its sockets are systemd's when that is wished, and psd's own again"
else
  skip "one shard can be taken out of the boot without the others" "systemd is not installed"
fi

if command -v systemd-tmpfiles >/dev/null; then
  mkdir "$work/tmp"
  try systemd-tmpfiles --root="$work/tmp" --create "$source/deploy/systemd/psd.tmpfiles.conf"
  is "755 755" "$(stat -c %a "$work/tmp/run/psd" "$work/tmp/var/lib/psd" 2>/dev/null | paste -sd ' ')" \
    "systemd-tmpfiles makes the places of their directories"
  # By age it would be removed; only psrun's directories are spared.
  mkdir -p "$work"/tmp/tmp/{psrun-1,other}
  touch -d '3 weeks ago' "$work"/tmp/tmp/{psrun-1,other}/data.mdb
  { grep ^x "$source/deploy/systemd/psd.tmpfiles.conf" && echo "d /tmp 1777 - - m:1w"; } >"$work/tmp/conf"
  try systemd-tmpfiles --root="$work/tmp" --clean "$work/tmp/conf"
  [ -e "$work/tmp/tmp/psrun-1/data.mdb" ] && [ ! -e "$work/tmp/tmp/other/data.mdb" ]
  ok $? "and leaves live directories alone when it clears old files away"
else
  skip "systemd-tmpfiles leaves live directories alone when it clears old files away" "systemd is not installed"
fi

# ---- the options that the unit gives ----

command=$(sed -n 's/^ExecStart=[^ ]* //p' "$work/units/psd@.service" | sed "s,%i,1,g; s,%t,$work,g; s,/etc/psd,$source/deploy/systemd,g; s, [$]PSD_OPTIONS,,")
# shellcheck disable=SC2086 # words
try sh -c 'set -a; . "$0"; exec "$@"' "$source/deploy/systemd/psd.default" "$PSD_BIN" $command --check
ok $? "the unit's command and the examples of the configuration are accepted together"
# shellcheck disable=SC2086
try env PSD_SHARDS=127.0.0.1:7420 "$PSD_BIN" $command --check
is 2 $? "a shard that PSD_SHARDS does not list fails with the status that is not tried again"
grep -qx 'RestartPreventExitStatus=2' "$work/units/psd@.service"
ok $? "which the unit knows"

# ---- a runtime directory that is preserved ----

runtime=$(mktemp -d "$(memory_dir)/psd-test-XXXXXX")
trap 'cleanup; rm -rf "$runtime"' EXIT
ready() { [ -s "$work/ready" ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }

# start WRAPPER...: psd as systemd starts it, its pid in $psd.
start() {
  rm -f "$work/ready"
  PSD_TEST_MARK=$mark RUNTIME_DIRECTORY=$runtime "$@" "$PSD_BIN" --listen 127.0.0.1:0 --memory 256MiB \
    --unix "$runtime/socket" --ready-file "$work/ready" >"$work/out" 2>"$work/err" </dev/null &
  psd=$!
  within ready
}
bits() { PSD_SHARDS=unix:$runtime/socket "$BITS" "$1" 2>>"$work/err"; }
# Also the processes that the wrapper started.
crash() {
  local pid
  for pid in $(marked); do
    kill -KILL "$pid"
  done
  wait "$psd" 2>/dev/null
  within none_marked
}

start env
before=$(bits push)
[ -n "$before" ] && [ -f "$runtime/live/data.mdb" ]
ok $? "the live environment lies in the runtime directory"
crash
start env
is "$before" "$(bits pull)" "after kill -9, psd started again on the preserved directory has the same bits"
says err 'data=kept'
ok $? "and says that it found them"
try env RUNTIME_DIRECTORY="$runtime" "$PSD_BIN" --listen 127.0.0.1:0
is 1 $? "a second psd on that directory is refused"
says err 'another psd'
ok $? "and told why"
crash

# ---- sockets that are handed over ----

# activated LIST: psd behind a socket of systemd's on a port that was free, for a cluster of which LIST says where it is.
activated() {
  rm -f "$work/ready"
  : >"$work/err" # the line that is waited for is not that of the one before
  PSD_TEST_MARK=$mark PSD_SHARDS=$1 RUNTIME_DIRECTORY=$runtime systemd-socket-activate -l "127.0.0.1:$port" -E PSD_SHARDS \
    -E RUNTIME_DIRECTORY -E PSD_TEST_MARK "$PSD_BIN" --memory 256MiB --ready-file "$work/ready" >"$work/out" 2>"$work/err" </dev/null &
  psd=$!
  within says err "Listening on 127.0.0.1:$port" && try_to "$PSCTL" --shards "127.0.0.1:$port" --count 1 ping
}
try_to() { "$@" >"$work/asked" 2>&1; }

if command -v systemd-socket-activate >/dev/null; then
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  activated "127.0.0.1:$port"
  ok $? "who connects to a socket of systemd's is answered by the psd that this starts"
  within says err "listening address=127.0.0.1:$port socket=handed"
  ok $? "which says whose it is"
  ! says err 'workers will look elsewhere'
  ok $? "and has nothing to say of a list of shards that has its port"
  crash
  activated "127.0.0.1:$((port == 65535 ? 1024 : port + 1))"
  within says err 'workers will look elsewhere'
  ok $? "but warns when the list says another"
  crash
else
  skip "who connects to a socket of systemd's is answered by the psd that this starts" "systemd is not installed"
fi

# ---- another container ----

# Changes with a new container: process ids start again from 1, and the host's name is another. Neither may matter.
if unshare --pid --fork --uts --ipc --mount-proc true 2>/dev/null; then
  start unshare --pid --fork --uts --ipc --mount-proc --kill-child sh -c 'hostname one; exec "$@"' sh
  is "$before" "$(bits pull)" "psd in namespaces of its own, as in a container, has the same bits"
  crash
  start unshare --pid --fork --uts --ipc --mount-proc --kill-child sh -c 'hostname two; exec "$@"' sh
  is "$before" "$(bits pull)" "and so has the next one after kill -9"
  crash
else
  skip "psd in namespaces of its own, as in a container, has the same bits" "this user may not make namespaces"
fi

done_testing
