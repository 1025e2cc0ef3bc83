# shellcheck shell=bash
# Debian roots to try deployments in. To be sourced after tap.sh.
#
# PSD_TEST_ROOT names a root as debootstrap --variant=minbase makes it. It is copied, and commands run in the copy with
# mounts of their own, which vanish with them.

# The variables and helpers here are used by the scripts that source this file.
# shellcheck disable=SC2016,SC2034,SC2154,SC2317

root='' shm='' net=''

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

# root_copy NAME: a copy of the root, $root from now on.
root_copy() {
  root=$work/$1
  cp -a "$PSD_TEST_ROOT" "$root"
  rm -f "$root/etc/resolv.conf"
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
}

# root_exec [CHROOT'S OPTIONS] [NAME=VALUE...] COMMAND...: in $root; with $shm as its /dev/shm and in the network
# namespace $net if those are set. When it ends, all processes that it started do.
root_exec() {
  local options=() enter=()
  if [ -n "$net" ]; then
    enter=(ip netns exec "$net")
  fi
  while [[ $1 = --* ]]; do
    options+=("$1")
    shift
  done
  "${enter[@]}" unshare --mount --propagation private --pid --fork --kill-child sh -c '
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && { [ -z "$1" ] || mount --bind "$1" "$0/dev/shm"; } &&
    shift && exec "$@"' "$root" "$shm" chroot "${options[@]}" "$root" \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}
