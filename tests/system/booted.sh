# shellcheck shell=bash
# systemd as process 1 of namespaces of its own, in the Debian root $root, which has systemd, dbus and psd's "bits". To
# be sourced after tap.sh and roots.sh, as root.
#
#     start_boot; wait_boot "it is up"     # or: within booted
#     inside systemctl ...                 # its output is in $work/out and $work/err
#     cut_power                            # and all of it is gone; what it has on its disk is in $root

# The variables and helpers here are used by the scripts that source this file; shells inside expand for themselves.
# shellcheck disable=SC2016,SC2034,SC2154,SC2317

# systemd needs a control group that it may manage: it sees this one as the hierarchy's root.
group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/psd-test-$$
pid1=

# All processes of the namespace go with its first, and its memory with them: so a power cut ends them.
cut_power() {
  if [ -n "$pid1" ]; then
    kill -KILL "$pid1" 2>/dev/null
    wait "$boot" 2>/dev/null
  fi
  pid1=
  WITHIN=5 within rmdir_group
}
trap 'cut_power; cleanup' EXIT

rmdir_group() {
  find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
  [ ! -d "$group" ]
}

# Mounts are the namespace's own: they vanish with it.
boot_script='
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  touch dev/$device
  mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
pivot_root . mnt
umount -l mnt
exec env -i container=psd-test PATH=/usr/sbin:/usr/bin /sbin/init'

boot() {
  mkdir "$group" && echo "$BASHPID" >"$group/cgroup.procs" && exec unshare --mount --propagation private --pid --fork \
    --kill-child --cgroup --ipc --uts --net sh -c "$boot_script" sh "$root"
}

inside() { nsenter -t "$pid1" -a -- env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root "$@" >"$work/out" 2>"$work/err"; }
ended() { ! kill -0 "$pid1" 2>/dev/null; }
booted() {
  pid1=$(cat "/proc/$boot/task/$boot/children" 2>/dev/null)
  pid1=${pid1% }
  [ -n "$pid1" ] && inside systemctl is-system-running --wait
}

start_boot() {
  (boot) >"$work/console" 2>&1 </dev/null &
  boot=$!
}
# wait_boot SENTENCE
wait_boot() {
  if ! within booted; then
    tail -n 30 "$work/console" | sed 's/^/# /'
  fi
  booted
  ok $? "$1"
}

# ---- shards in it ----

value() { inside systemctl show -P "$2" "psd@$1" && cat "$work/out"; }
journal() { inside journalctl -u "psd@$1" --no-pager -o cat && cat "$work/out"; }
bits() { inside sh -c ". /etc/default/psd && PSD_SHARDS=\$PSD_SHARDS bits $1" && cat "$work/out"; }
restarted() { [ "$(value "$1" NRestarts)" -ge "$2" ] && [ "$(value "$1" SubState)" = running ]; }
