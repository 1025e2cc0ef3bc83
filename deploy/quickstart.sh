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

# Before minutes are spent on building.
for count in shards workers; do
  if [[ -n ${!count} && ! ${!count} =~ ^[1-9][0-9]{0,4}$ ]]; then
    printf "quickstart: --%s: expected a whole number from 1, got '%s'\n" "$count" "${!count}" >&2
    exit 2
  fi
done

say() { printf '%s\n' "$*" >&2; }

# Run quietly but for lines that say how far it is; show what was said only when it fails.
quietly() {
  if ! progress_run "$build/quickstart.log" progress_of_ninja "$@"; then
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
  say "Configuring $build ..."
  quietly meson setup "$build" "$root" --buildtype=release
fi
programs=(server/psd client/tools/psrun client/tools/psctl client/examples/digits/digits)
if [[ $(ninja -C "$build" -n "${programs[@]}" 2>/dev/null || true) != *'no work to do'* ]]; then
  say "Building ${programs[*]##*/} (a minute on a few cores; a second run finds them) ..."
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
# run COMMAND...: its status. In the background a shell hears signals at once, but what it starts there would ignore the
# terminal's Ctrl-C; that one reaches both, other signals are handed on.
run() {
  local pid status=0
  env --default-signal=INT,QUIT "$@" <&0 &
  pid=$!
  trap 'kill -TERM "$pid" 2>/dev/null' TERM
  trap 'kill -HUP "$pid" 2>/dev/null' HUP
  if [ -t 0 ]; then
    trap : INT
  else
    trap 'kill -INT "$pid" 2>/dev/null' INT
  fi
  while kill -0 "$pid" 2>/dev/null; do
    wait "$pid" || true
  done
  wait "$pid" || status=$?
  return "$status"
}

try_next() {
  local token
  token=me:$(od -An -v -tx1 -N16 /dev/urandom | tr -d ' \n')
  cat <<END

What to try next:
  $0 --strategy sync            one update from all workers' gradients; also ssp, local_sgd ...
  $0 --strategy mirrored        in one process, without shards
  $0 --workers 4 --shards 3 --model conv
  $0 --data DIR                 MNIST's files, or others in IDX format
  ${digits#"$PWD"/} --help    every option
A run of some minutes, and from another terminal a look into it, at the addresses that it prints:
  PSD_TOKEN=$token $0 --epochs 20000
  PSD_TOKEN=$token ${tools#"$PWD"/}/psctl --shards ADDRESS,ADDRESS top
A program of your own: README.md, "A worker". All tests: ./tests/run.sh
END
}

digits=$build/client/examples/digits/digits
tools=$build/client/tools
case $strategy in
  one_device | mirrored | central_storage)
    say "Training in one process ..."
    command=("$digits")
    ;;
  *)
    if [ "$strategy" = multi_worker_mirrored ]; then
      shards=${shards:-0}
    fi
    shards=${shards:-2}
    command=("$tools/psrun" --shards "$shards" --workers "$workers")
    if [ "$shards" != 0 ]; then
      command+=(--psd-option --log-level=warning)
    fi
    command+=(-- "$digits")
    say "Training with $workers workers on ${shards/#0/no} shards ..."
    ;;
esac
run "${command[@]}" --svg "$svg" ${train[@]+"${train[@]}"}
try_next
