# shellcheck shell=bash
# Debian roots to try deployments in. To be sourced after tap.sh.
#
# PSD_TEST_ROOT names a root as debootstrap --variant=minbase makes it. It is copied, and commands run in the copy with
# mounts of their own, which vanish with them.

# What is set here is used by those who source it, who call the helpers too.
# shellcheck disable=SC2016,SC2034,SC2154,SC2317

root=

# root_wanted SENTENCE: or everything is skipped.
root_wanted() {
  local why=
  if [ -z "${PSD_TEST_ROOT:-}" ]; then
    why="PSD_TEST_ROOT names no Debian root"
  elif ! unshare --mount --pid --fork true 2>/dev/null; then
    why="this user may not make namespaces"
  fi
  if [ -n "$why" ]; then
    skip "$1" "$why"
    done_testing
  fi
}

root_copy() {
  root=${work:?}/root
  cp -a "$PSD_TEST_ROOT" "$root"
  rm -f "$root/etc/resolv.conf"
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
}

# root_run SCRIPT [NAME=VALUE...]: a shell's script in the copy.
root_run() {
  local script=$1
  shift
  unshare --mount --propagation private --pid --fork --kill-child sh -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 script=$2 && shift 2 &&
    exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      DEBIAN_FRONTEND=noninteractive HOME=/root "$@" /bin/sh -c "$script"' sh "$root" "$script" "$@" </dev/null
}

root_remove() {
  if [ -n "$root" ]; then
    rm -rf --one-file-system "$root"
  fi
}
