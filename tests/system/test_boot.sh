#!/usr/bin/env bash
# The units under a real systemd: it is started as process 1 of namespaces of its own, in a Debian root, and shards are
# enabled, killed, stuck, stopped and started again as an operator would, and the machine is rebooted and loses its power.
# Needs root, the network (systemd is installed there) and PSD_TEST_ROOT, which names a Debian 12 root as debootstrap
# --variant=minbase makes it; it is copied. Prints TAP.
#
# Helpers are called by name (SC2317); shells inside expand for themselves (SC2016).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=roots.sh
. "$here/roots.sh"
# shellcheck source-path=SCRIPTDIR source=booted.sh
. "$here/booted.sh"
# shellcheck source-path=SCRIPTDIR source=../../deploy/packages.sh
. "${PSD_SOURCE_DIR:-$here/../..}/deploy/packages.sh"

unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
root_wanted "shards run as services under a real systemd"
root_copy root
root_exec DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update && apt-get install -y --no-install-recommends "$@"' sh \
  systemd systemd-sysv dbus "${PACKAGES_RUN[@]}" >"$work/out" 2>&1
ok $? "systemd is installed in a copy of the root"
DESTDIR=$root meson install -C "${PSD_BUILD_DIR:-$build}" --no-rebuild >"$work/out" 2>&1
ok $? "psd is installed beside it"
cp "${PSD_BUILD_DIR:-$build}/tests/system/bits" "$root/usr/local/bin/"
cp "${FAIL_IO_LIB:-$build/tests/faults/libfail_io.so}" "$root/usr/local/lib/libfail_io.so"

# ---- as deploy/README.md says ----

start_boot
wait_boot "systemd runs, and no unit has failed"

inside sh -c 'systemd-sysusers && systemd-tmpfiles --create psd.conf && install -D -m 644 /usr/local/share/psd/psd.conf /etc/psd/psd.conf &&
  install -D -m 644 /usr/local/share/psd/psd.default /etc/default/psd'
ok $? "the user is made, and the examples of the configuration are put in place"
inside systemctl enable --now psd.target psd@0 psd@1
enabled=$?
[ "$enabled" -eq 0 ] || inside journalctl -u psd@0 -n 20 --no-pager
ok "$enabled" "two shards are enabled and start"
inside sh -c 'systemctl is-active psd@0 psd@1 psd.target run-psd.mount && systemctl is-enabled psd.target'
ok $? "with them their target, and a tmpfs of their own"

[[ $(value 0 StatusText) =~ ^Shard\ 0\ of\ 2,\ connections:\ [0-9]+,\ [0-9]+\ of\ [0-9]+\ MiB$ ]]
ok $? "systemctl status tells what a shard holds: $(value 0 StatusText)"
inside sh -c 'psctl --shards 127.0.0.1:7420,127.0.0.1:7421 ping && psctl --shards unix:/run/psd/0/socket,unix:/run/psd/1/socket ping'
ok $? "both answer over TCP and over their Unix sockets"
inside sh -c 'stat -c %U:%a /run/psd/0 /run/psd/0/live /run/psd/0/socket /var/lib/psd/0 | tr "\n" " "'
is "psd:750 psd:700 psd:660 psd:700 " "$(cat "$work/out")" "what is theirs is the user's, and the group may use the socket"
inside sh -c 'useradd -G psd member && useradd stranger && cd / &&
  setpriv --reuid member --regid member --init-groups psctl --shards unix:/run/psd/0/socket ping &&
  ! setpriv --reuid stranger --regid stranger --init-groups psctl --shards unix:/run/psd/0/socket --timeout 200 ping'
ok $? "a member of the group reaches it, a stranger does not"
before=$(bits push)
[ -n "$before" ]
ok $? "a worker trains on them"

# ---- ends ----

inside systemctl kill --signal KILL psd@0
within restarted 0 1
ok $? "after kill -9 the shard is started again"
is "$before" "$(bits pull)" "and serves the same bits"
inside systemctl restart psd.target
within restarted 1 0
is "$before" "$(bits pull)" "so it does after a restart of all"
inside systemctl stop psd.target 'psd@*' # of the target alone it would not wait for the shards
is inactive "$(value 0 ActiveState)" "stopping the target stops the shards"
is success "$(value 0 Result)" "cleanly"
inside systemctl start psd.target
is "$before" "$(bits pull)" "and starting it brings the same bits back"

inside sh -c 'mkdir -p /run/systemd/system/psd@.service.d && printf "[Service]\nWatchdogSec=1s\n" >/run/systemd/system/psd@.service.d/test.conf
  systemctl daemon-reload && systemctl restart psd@1'
watched=$(value 1 NRestarts)
sleep 2 # two of the watchdog's times: a shard with signs of life is left alone
is "$watched" "$(value 1 NRestarts)" "a shard that does its work is not disturbed by the watchdog"
inside systemctl kill --signal STOP psd@1
within restarted 1 1
ok $? "a shard that is stuck is ended and started again"
grep -q 'Watchdog timeout' <<<"$(journal 1)"
ok $? "by the watchdog"
is "$before" "$(bits pull)" "with the same bits"

inside sh -c 'echo "log-level = warning" >>/etc/psd/psd.conf && systemctl reload psd.target'
reloaded() { grep -q 'option changed option=log-level was=info is=warning' <<<"$(journal 0)"; }
within reloaded
ok $? "reloading the target reads the configuration again"
inside sh -c 'echo "nonsense = 1" >>/etc/psd/psd.conf; systemctl restart psd@0'
failed() { [ "$(value 0 ActiveState)" = failed ]; }
within failed
ok $? "a wrong option is not tried again and again"
grep -q 'there is no option nonsense' <<<"$(journal 0)"
ok $? "and the journal says which"
inside sh -c 'sed -i "/nonsense/d; /log-level/d" /etc/psd/psd.conf; systemctl start psd@0'
is "$before" "$(bits pull)" "put right, the shard has the same bits"

# ---- tokens and certificates ----

# As deploy/README.md and psd.conf say: root's, and the group psd may read them.
secure='chgrp psd /etc/psd/tokens /etc/psd/shard.key && chmod 640 /etc/psd/tokens /etc/psd/shard.key'
secured() { inside env PSD_TLS_CA=/etc/psd/ca.pem PSD_TOKEN_FILE=/etc/psd/tokens psctl --shards 127.0.0.1:7420 --timeout 5s variables; }
"${PSD_SOURCE_DIR:-$here/../..}/deploy/make-certs.sh" "$work/certs" shard=127.0.0.1 >"$work/out" 2>"$work/err"
must $? "there are certificates"
cp "$work"/certs/{ca.pem,shard.pem,shard.key} "$root/etc/psd/"
echo "boss:admin:$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$root/etc/psd/tokens"
inside sh -c "$secure"' && cp /etc/psd/psd.conf /etc/psd/plain.conf && sed -i -E "s/^#((tokens|tls-cert|tls-key|tls-client-ca) = )/\1/; /^tls-client-ca/d" /etc/psd/psd.conf &&
  systemctl restart psd@0'
secured
ok $? "with the lines of psd.conf uncommented, who has the token and the CA is let in"
! inside psctl --shards 127.0.0.1:7420 --timeout 5s variables
ok $? "and who has neither is not"
"${PSD_SOURCE_DIR:-$here/../..}/deploy/make-certs.sh" "$work/certs" shard=127.0.0.1 >"$work/out" 2>"$work/err"
must $? "and others"
cp "$work"/certs/{shard.pem,shard.key} "$root/etc/psd/"
echo "next:admin:$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$root/etc/psd/tokens"
inside sh -c "$secure"' && systemctl reload psd@0'
read_again() { grep -q 'certificate, key and CA were read again' <<<"$(journal 0)"; }
within read_again && within secured
ok $? "a reload reads both again"
inside sh -c 'mv /etc/psd/plain.conf /etc/psd/psd.conf && systemctl restart psd@0'
is "$before" "$(bits pull)" "without them, the shard has the same bits"

# ---- a throw-away shard ----

inside systemd-run --unit psd-try -p Type=notify -p DynamicUser=yes -p RuntimeDirectory=psd-try \
  /usr/local/bin/psd --listen 127.0.0.1:7500
ok $? "systemd-run starts a throw-away shard"
inside psctl --shards 127.0.0.1:7500 ping
ok $? "which answers"
inside sh -c 'systemctl stop psd-try && ! ls /run/psd-try /run/private/psd-try'
ok $? "and leaves nothing when it is stopped"

# ---- sockets that systemd holds ----

# Connects to shard 0 again and again until it is stopped; then prints how often it could, and how often not.
call='could=0 refused=0
  while [ ! -e /run/over ]; do
    if (exec 3<>/dev/tcp/127.0.0.1/7420) 2>/dev/null; then could=$((could + 1)); else refused=$((refused + 1)); fi
    echo "$could" >/run/could
    sleep 0.01
  done
  echo "$could $refused" >/run/calls'
could() { inside cat /run/could && cat "$work/out"; }
called() { [ "$(could)" -ge "$1" ]; } 2>/dev/null
readyz='exec 3<>/dev/tcp/127.0.0.1/9420 && printf "GET /readyz HTTP/1.1\r\nHost: here\r\n\r\n" >&3 && grep -q " 200 OK" <&3'

inside systemctl stop psd.target 'psd@*'
inside systemctl enable --now psd@0.socket psd@1.socket psd-http@0.socket
ok $? "systemd opens the shards' sockets itself"
is inactive "$(value 0 ActiveState)" "and starts none of them"
is "$before" "$(bits pull)" "until somebody connects, who finds the same bits"
inside systemctl start psd.target
is 2 "$(journal 0 | grep -c 'listening address=.* socket=handed$')" "the shard serves the sockets that it was given"
inside bash -c "$readyz"
ok $? "and tells of its health on the one for that"
inside sh -c 'stat -c %U:%a /run/psd/0 /run/psd/0/socket | tr "\n" " "'
is "psd:750 psd:660 " "$(cat "$work/out")" "the Unix socket is the user's, in his directory"

inside systemd-run --unit calls bash -c "$call"
within called 20
inside systemctl restart psd@0
inside systemctl kill --signal KILL psd@0
within restarted 0 1
inside systemctl restart psd.target
inside bash -c "$readyz"
ok $? "after a restart, a crash and a restart of all it does so as before"
within called "$(($(could) + 20))"
inside touch /run/over
within inside test -e /run/calls
inside cat /run/calls
read -r could refused <"$work/out"
is 0 "$refused" "and of $could callers meanwhile not one was refused"
is "$before" "$(bits pull)" "its bits are the same"

inside systemctl stop psd.target 'psd@*.service'
inside bash -c '! (exec 3<>/dev/tcp/127.0.0.1/7420) 2>/dev/null && [ ! -e /run/psd/0/socket ]'
ok $? "a stop of the target closes the sockets, too"
inside systemctl start psd.target
is "$before" "$(bits pull)" "and a start opens them again"

inside sh -c 'systemctl stop psd@0.socket psd-http@0.socket psd@0 && mv /var/lib/psd/0 /var/lib/lost && systemctl start psd.target'
ok $? "a shard that has lost its disk starts"
is "$before" "$(bits pull)" "and has the same bits, from memory; what follows asks its new disk"

# ---- without memory ----

rebuilt() { # in this life: the journal may have those before
  inside journalctl "_SYSTEMD_INVOCATION_ID=$(value "$1" InvocationID)" --no-pager -o cat
  says out 'rebuilt from the durable directory'
}

inside systemctl stop run-psd.mount
is inactive "$(value 0 ActiveState)" "taking the memory away stops the shards first"
inside systemctl start psd.target
is "$before" "$(bits pull)" "and starting them again brings the same bits from the disk"
before=$(bits push)
inside systemctl reboot
within ended
ok $? "the machine is rebooted"
cut_power # of what is off already
start_boot
wait_boot "and comes up again"
is "$before" "$(bits pull)" "with the shards running, and the same bits"
rebuilt 0 && rebuilt 1
ok $? "which the stop had saved"

before=$(bits durable)
cut_power
start_boot
wait_boot "after a power cut it comes up, too"
is "$before" "$(bits pull)" "and the shards have what was acknowledged as durable"
rebuilt 0 && rebuilt 1
ok $? "from the disk"

# ---- slow disks ----

# psd's notifications to systemd extend the unit's limits: shard 0 has short ones, and a disk that waits on command. The
# sleeps are the test: time over those limits.
limit=6
disk() { echo "$*" >"$root/var/lib/psd/0/control.new" && mv "$root/var/lib/psd/0/control.new" "$root/var/lib/psd/0/control"; }
waiting() { [ "$(wc -l <"$root/var/lib/psd/0/control.hits")" -ge "$1" ]; } 2>/dev/null
mkdir -p "$root/etc/systemd/system/psd@0.service.d"
printf '[Service]\nEnvironment=%s\nTimeoutStartSec=%s\nTimeoutStopSec=%s\n' \
  "LD_PRELOAD=/usr/local/lib/libfail_io.so FAIL_IO=/var/lib/psd/0/control" "$limit" "$limit" \
  >"$root/etc/systemd/system/psd@0.service.d/slow.conf"

cut_power
disk write STALL 1 0 live/boot.new # the mark that it is being made
start_boot
within waiting 1
sleep 2 # it tells how far it is once a second
disk write STALL 1 1 live/boot.new # that all is there
within waiting 2
ok $? "a rebuild waits for its disk"
sleep "$limit"
disk
wait_boot "although it takes longer than TimeoutStartSec, systemd waits for it"
! grep -q 'start operation timed out' <<<"$(journal 0)"
ok $? "and does not begin it again"
is "$before" "$(bits pull)" "its bits are the same"

before=$(bits push)
disk fdatasync STALL 1 0 durable/data.mdb
inside systemctl stop --no-block psd@0
within waiting 3
ok $? "a save waits for its disk"
sleep "$((limit + 1))"
disk
stopped() { [ "$(value 0 ActiveState)" != deactivating ]; }
within stopped
is "inactive success" "$(value 0 ActiveState) $(value 0 Result)" "although it takes longer than TimeoutStopSec, systemd waits for it"
inside systemctl stop run-psd.mount
inside systemctl start psd.target
is "$before" "$(bits pull)" "and is whole"

done_testing
