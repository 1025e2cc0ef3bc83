#!/usr/bin/env bash
# From nothing to a trained model: install what is missing, build, start a cluster on this machine, train.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=packages.sh
. "$root/deploy/packages.sh"

build=$root/build
shards=
workers=3
install=yes
svg=$build/digits-loss.svg
train=()

usage() {
  cat <<END
usage: deploy/quickstart.sh [options]

Install what psd needs (Debian 12; as root or through sudo), build it into build/, start a cluster on this machine, and
train a network that reads handwritten digits. A second run starts in seconds.

  --shards N      parameter server processes (default 2, or as many as the strategy needs)
  --workers N     worker processes (default $workers); strategies of one process have neither these nor shards
  --no-install    install nothing
  --help          print this

All other options go to the training program; the most useful are

  --strategy NAME   async, ssp or sync (default async), or local_sgd: variables on shards; multi_worker_mirrored: workers
                    without shards; one_device, mirrored or central_storage: in one process
  --replicas N      mirrored, central_storage: copies of the network, each on a thread (default 2)
  --local-steps N   local_sgd: steps of a worker between two exchanges with the shards (default 8)
  --bound N         ssp: steps that a worker may run ahead of the slowest (default 4)
  --model NAME      mlp, a perceptron, or conv, a small convolutional network (default mlp)
  --optimizer TEXT  such as sgd, nesterov, or adam:learning_rate=0.002 (default adam)
  --epochs N        times that every image is seen (default 100; conv 50)
  --seed N          of first weights and of the order of images (default 1)
  --device NAME     where gradients are computed (default cpu)
  --data DIR        IDX files such as MNIST's, plain or .gz (default: the digits that come with psd)
  --svg PATH        where the loss curve goes; '': nowhere (default build/digits-loss.svg)

build/client/examples/digits/digits --help tells the rest.
END
}

fail() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 1
}

# value OPTION ARGUMENTS...: fails unless there is something after the option.
value() {
  if [ $# -lt 2 ]; then
    printf 'quickstart: %s: expected a value after it\n' "$1" >&2
    exit 2
  fi
}

while [ $# -gt 0 ]; do
  case $1 in
    --shards | --workers | --svg)
      value "$@"
      declare "${1#--}=$2"
      shift
      ;;
    --shards=* | --workers=* | --svg=*)
      name=${1%%=*}
      declare "${name#--}=${1#*=}"
      ;;
    --no-install) install=no ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) train+=("$1") ;;
  esac
  shift
done

# Run quietly; show what was said only when it fails.
quietly() {
  if ! "$@" >>"$build/quickstart.log" 2>&1; then
    tail -n 40 "$build/quickstart.log" >&2
    fail "this failed: $* (all of it is in $build/quickstart.log)"
  fi
}

if [ "$install" = yes ]; then
  packages_install "${PACKAGES_BUILD[@]}" || exit 1
fi
for tool in meson ninja; do
  command -v "$tool" >/dev/null || fail "$tool is not installed; run this without --no-install"
done

mkdir -p "$build"
: >"$build/quickstart.log"
if ! [ -f "$build/build.ninja" ]; then
  echo "Configuring $build ..." >&2
  quietly meson setup "$build" "$root" --buildtype=release
fi
programs=(server/psd client/tools/psrun client/tools/psctl client/examples/digits/digits)
if ! [ -x "$build/${programs[3]}" ]; then
  echo "Building (once; well under a minute on a few cores) ..." >&2
fi
quietly ninja -C "$build" "${programs[@]}"

# The training program's last word on it counts there, and here.
strategy=
for ((i = 0; i < ${#train[@]}; i++)); do
  case ${train[i]} in
    --strategy) strategy=${train[i + 1]-} ;;
    --strategy=*) strategy=${train[i]#*=} ;;
  esac
done
case $strategy in
  one_device | mirrored | central_storage)
    exec "$build/client/examples/digits/digits" --svg "$svg" "${train[@]}"
    ;;
  multi_worker_mirrored) shards=${shards:-0} ;;
esac
shards=${shards:-2}
options=(--shards "$shards" --workers "$workers")
if [ "$shards" != 0 ]; then
  options+=(--psd-option --log-level=warning)
fi
exec "$build/client/tools/psrun" "${options[@]}" -- \
  "$build/client/examples/digits/digits" --svg "$svg" ${train[@]+"${train[@]}"}
