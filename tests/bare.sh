#!/usr/bin/env bash
# README's two commands where nothing is installed: in a Debian root of debootstrap's, on a fresh clone of this tree.
#
# Helpers are called by traps and by name (SC2317); the shell inside expands for itself (SC2016).
# shellcheck disable=SC2016,SC2317
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=../deploy/progress.sh
. "$root/deploy/progress.sh"

suite=bookworm
mirror=http://deb.debian.org/debian
only=
from=
keep=no
apt=no
selection=()

usage() {
  cat <<END
usage: tests/bare.sh [options] [-- run.sh's options and tests]

Makes a Debian 12 root with debootstrap (minbase: what every Debian has, and apt), clones what is committed here into it,
and runs there, one after the other:

  ./deploy/quickstart.sh
  ./tests/run.sh

Needs root, debootstrap, git and the network. The status is 0 when both went well.

  --only NAME   quickstart or tests: that one alone; quickstart takes minutes, tests as long as run.sh does
  --root DIR    begin with a copy of this root, as debootstrap --variant=minbase $suite DIR makes it
  --mirror URL  where debootstrap finds Debian (default $mirror)
  --apt-conf    give apt in there the settings of this machine's apt (apt.conf, apt.conf.d): proxies and the like
  --keep        leave the root where it is, and say where
  --help        print this
END
}

say() { printf 'bare.sh: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit "${status:-1}"
}
# value OPTION ARGUMENTS...: fails unless there is something after the option.
value() {
  if [ $# -lt 2 ]; then
    status=2 fail "$1: expected a value after it"
  fi
}

while [ $# -gt 0 ]; do
  case $1 in
    --only | --mirror)
      value "$@"
      declare "${1#--}=$2"
      shift
      ;;
    --root)
      value "$@"
      from=$2
      shift
      ;;
    --apt-conf) apt=yes ;;
    --keep) keep=yes ;;
    --help | -h)
      usage
      exit 0
      ;;
    --)
      shift
      selection=("$@")
      break
      ;;
    *) status=2 fail "unknown option '$1'; --help lists them" ;;
  esac
  shift
done
case $only in
  '' | quickstart | tests) ;;
  *) status=2 fail "--only: expected quickstart or tests, got '$only'" ;;
esac

[ "$(id -u)" -eq 0 ] || fail "needs root, for debootstrap and chroot"
unshare --mount --pid --fork true 2>/dev/null || fail "the kernel lets this user make no namespaces; a container needs CAP_SYS_ADMIN for that"
command -v git >/dev/null || fail "git is not installed"
[ -n "$from" ] || command -v debootstrap >/dev/null || fail "debootstrap is not installed: apt-get install debootstrap, or --root DIR"
[ -z "$from" ] || [ -x "$from/usr/bin/apt-get" ] || fail "--root: $from is no Debian root"

place=$(mktemp -d "${TMPDIR:-/var/tmp}/psd-bare-XXXXXX")
bare=$place/root
cleanup() {
  if [ "$keep" = yes ]; then
    say "the root is $bare"
  else
    rm -rf --one-file-system "$place"
  fi
}
trap cleanup EXIT

# ---- the root ----

progress_of_debootstrap() { sed -n 's/^I: //p' "$1" | tail -n 1; }

if [ -n "$from" ]; then
  say "copying $from ..."
  cp -a --one-file-system "$from" "$bare"
else
  say "debootstrap makes a $suite root in $bare ..."
  progress_run "$place/log" progress_of_debootstrap debootstrap --variant=minbase "$suite" "$bare" "$mirror" || {
    tail -n 20 "$place/log" >&2
    fail "debootstrap failed; --mirror URL names another mirror"
  }
fi
rm -f "$bare/etc/resolv.conf"
cat /etc/resolv.conf >"$bare/etc/resolv.conf"
if [ "$apt" = yes ]; then
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d; do
    [ ! -e "$file" ] || cp -a "$file" "$bare/etc/apt/"
  done
fi
git clone --quiet --no-local "$root" "$bare/psd"
say "the clone is of $(git -C "$bare/psd" log -1 --format='%h, "%s"')"
[ -z "$(git -C "$root" status --porcelain)" ] || say "what is not committed is not in it"

# inside COMMAND...: in the root, in namespaces of its own: mounts and processes end with it.
inside() {
  unshare --mount --propagation private --pid --fork --kill-child sh -c '
    mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" && exec "$@"' "$bare" \
    chroot "$bare" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    TERM="${TERM:-dumb}" ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    sh -c 'cd /psd && exec "$@"' sh "$@"
}

# ---- the commands ----

result=0
# try COMMAND...: README's.
try() {
  local begun=$SECONDS status=0
  say "$*"
  inside "$@" || status=$?
  if [ "$status" -eq 0 ]; then
    say "$1 went well, in $((SECONDS - begun)) s"
  else
    say "$1 ended with status $status, after $((SECONDS - begun)) s"
    result=1
  fi
}

[ "$only" = tests ] || try ./deploy/quickstart.sh
[ "$only" = quickstart ] || try ./tests/run.sh ${selection[@]+"${selection[@]}"}
exit "$result"
