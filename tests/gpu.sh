#!/usr/bin/env bash
# The tests of everything that computes on a GPU, on a machine that has one. One GPU is enough: processes and replicas
# share it through two stand-ins of tests/unit/client/device, one_gpu_module.c and one_gpu_nccl.cu.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=../deploy/progress.sh
. "$root/deploy/progress.sh"

built=
module=
jobs=$(nproc)
only=()

# The programs, with the folder of the build that each is in.
tests=(unit/test_conformance unit/test_device_module unit/test_device_resident system/test_tensors
  system/test_device_group system/test_device_reduce)

# digits in every strategy: a name; the processes, "here" for one or psrun's options; digits' options.
digits=(
  "digits_one_device|here|--strategy one_device"
  "digits_one_device_conv|here|--strategy one_device --model conv --epochs 50"
  "digits_one_device_3|here|--strategy one_device --replicas 3"
  "digits_mirrored|here|--strategy mirrored --device cuda,cuda:1"
  "digits_central_storage|here|--strategy central_storage --device cuda,cuda:1"
  "digits_async|--shards 2 --workers 2|--strategy async"
  "digits_ssp|--shards 2 --workers 2|--strategy ssp"
  "digits_sync|--shards 2 --workers 2|--strategy sync"
  "digits_local_sgd|--shards 2 --workers 2|--strategy local_sgd"
  "digits_multi_worker_mirrored|--shards 1 --workers 2|--strategy multi_worker_mirrored"
  "digits_device_reduce|--shards 1 --workers 2|--strategy multi_worker_mirrored --device-reduce"
)
least=95 # per cent of the held-out images: every strategy reaches more

usage() {
  cat <<END
usage: tests/gpu.sh [options] [NAME...]

Builds psd with its CUDA module and runs the tests of devices on GPU 0: the table of operations, devices and their errors,
variables that stay on the device, tensors pushed and pulled, groups and workers that reduce on the device, and the digits
example in every strategy. The last line is "N passed, N failed"; the status is 0 when all passed, and 77 when there is
no GPU. NAMEs choose among: $(gpu_names).

  --built DIR     test what is built in DIR (meson setup -Dtests=enabled -Dcuda=enabled DIR) instead of building it
  --module FILE   on the devices of this module instead of the CUDA module in DIR
  --jobs N        run N of them at a time (default $jobs, one for each core)
  --help          print this
END
}

say() { printf 'gpu.sh: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit "${status:-1}"
}
value() {
  if [ $# -lt 2 ]; then
    status=2 fail "$1: expected a value after it"
  fi
}
gpu_names() {
  local list=("${tests[@]##*/test_}" "${digits[@]%%|*}")

  echo "${list[@]}"
}

while [ $# -gt 0 ]; do
  case $1 in
    --built | --module | --jobs)
      value "$@"
      declare "${1#--}=$2"
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) status=2 fail "unknown option '$1'; --help lists them" ;;
    *)
      [[ " $(gpu_names) " == *" $1 "* ]] || status=2 fail "there is no test '$1'; --help lists them"
      only+=("$1")
      ;;
  esac
  shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || status=2 fail "--jobs: expected a number, got '$jobs'"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- Building ----

if [ -z "$built" ]; then
  built=$work/build
  say "building"
  (cd "$root" && meson setup --buildtype=release -Dtests=enabled -Dcuda=enabled "$built" && ninja -C "$built") >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2 && fail "the build failed"; }
fi
built=$(cd "$built" && pwd) || status=2 fail "--built: there is no such folder"
module=$(realpath -e "${module:-$built/client/device/cuda/libpsclient-cuda.so}") || status=2 fail "there is no module"

# ---- Running: each writes its TAP to a file of its own ----

# Whether the module has a device here; says why not.
gpu_present() {
  PSD_CUDA_MODULE=$module "$built/client/examples/digits/digits" --strategy one_device --device cuda --epochs 1 \
    --svg '' >"$work/log" 2>&1 && return 0
  tail -n 3 "$work/log" >&2
  return 1
}

# gpu_test PROGRAM: through the stand-ins.
gpu_test() {
  local program=$built/tests/$1

  # libnccl.so.2, where processes are to meet, is the stand-in.
  export CK_TAP_LOG_FILE_NAME=- CK_DEFAULT_TIMEOUT=120 PSD_BUILD_DIR=$built PSD_SOURCE_DIR=$root PSD_BIN=$built/server/psd
  export ONE_GPU_BEHIND=$module FAKE_MODULE_LIB=$built/tests/unit/libone_gpu_module.so PSD_BUILT_CUDA_MODULE=$built/client/device/cuda/libpsclient-cuda.so
  if [ "$1" = unit/test_conformance ]; then # one process for all: a GPU takes longer to begin than a test
    export CK_FORK=no
  fi
  LD_LIBRARY_PATH=$built/tests/unit${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$root/tests/apart.sh" "$program"
}

# gpu_digits NAME PROCESSES OPTIONS: trains, and looks at the accuracy that the last lines say.
gpu_digits() {
  local name=$1 processes=$2 command accuracy

  command=("$built/client/examples/digits/digits" --device cuda --svg '' --seed 3)
  # shellcheck disable=SC2206 # words
  command+=($3)
  export ONE_GPU_BEHIND=$module PSD_CUDA_MODULE=$built/tests/unit/libone_gpu_module.so PSD_BIN=$built/server/psd
  export LD_LIBRARY_PATH=$built/tests/unit${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  if [ "$processes" != here ]; then
    # shellcheck disable=SC2206
    command=("$root/tests/apart.sh" "$built/client/tools/psrun" $processes -- "${command[@]}")
  fi
  (cd "$root" && "${command[@]}") >"$work/$name.log" 2>&1 || {
    echo "not ok 1 - $name: it ended with status $?"
    sed 's/^/# /' "$work/$name.log" | tail -n 20
    return
  }
  accuracy=$(sed -n 's/.*held-out accuracy *\([0-9.]*\) %.*/\1/p' "$work/$name.log" | head -n 1)
  if awk -v is="${accuracy:-0}" -v least=$least 'BEGIN { exit !(is >= least) }'; then
    echo "ok 1 - $name: $accuracy %"
  else
    echo "not ok 1 - $name: ${accuracy:-no accuracy} %, at least $least expected"
  fi
}

gpu_wanted() { [ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $1 "* ]]; }

# gpu_start NAME COMMAND...: as soon as one of the places is free.
gpu_start() {
  local name=$1

  gpu_wanted "$name" || return 0
  shift
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
    wait -n || true
  done
  say "$name"
  (
    status=0
    "$@" >"$work/$name.tap" 2>"$work/$name.err" || status=$?
    [ $status -eq 0 ] || grep -q '^not ok ' "$work/$name.tap" || echo "not ok 0 - $name: status $status" >>"$work/$name.tap"
  ) &
  started+=("$name")
}

if ! gpu_present; then
  say "there is no GPU to test"
  exit 77
fi
begun=$SECONDS
started=()
for row in "${digits[@]}"; do
  IFS='|' read -r name processes options <<<"$row"
  gpu_start "$name" gpu_digits "$name" "$processes" "$options"
done
for program in "${tests[@]}"; do
  gpu_start "${program##*/test_}" gpu_test "$program"
done
wait

# ---- What came of it ----

passed=0
failed=0
for name in "${started[@]}"; do
  ok=$(grep -c '^ok ' "$work/$name.tap" || true)
  bad=$(grep -c '^not ok ' "$work/$name.tap" || true)
  passed=$((passed + ok))
  failed=$((failed + bad))
  echo "# $name: $ok passed, $bad failed"
  if [ "$bad" -gt 0 ]; then
    grep -v '^ok ' "$work/$name.tap" || true
    grep -v '^# PSD_TEST_SEED=' "$work/$name.err" | tail -n 20 || true
  fi
done
echo "# $((SECONDS - begun)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
