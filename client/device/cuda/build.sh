#!/usr/bin/env bash
# Build the CUDA module alone, and test and measure it, on a machine that has the CUDA toolkit and a C compiler: no
# meson, no libuv, no Check. With OpenBLAS's header and library, the CPU device is built as well, and training steps are
# timed on both.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
out=
nvcc=${NVCC:-}
cc=${CC:-cc}
device=cuda
module=
sanitizers=()
figures=yes
run=yes

usage() {
  cat <<END
usage: client/device/cuda/build.sh [options]

  --out DIR         build there (default: a new directory, removed at the end)
  --device NAME     test this device (default cuda; cuda:1 is the second GPU)
  --module FILE     test this module instead of building one
  --sanitizer TOOL  run the tests under compute-sanitizer's TOOL (memcheck, racecheck, initcheck, synccheck); may be repeated
  --no-figures      measure nothing
  --build-only      run nothing
  --help            print this

NVCC and CC name the compilers; CFLAGS are added. The exit status is 0 when all tests passed, 77 when there is no GPU to run them on.
END
}

fail() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --out | --device | --module | --sanitizer)
      [ $# -gt 1 ] || fail "$1: expected a value after it"
      case $1 in
        --out) out=$2 ;;
        --device) device=$2 ;;
        --module) module=$2 ;;
        --sanitizer) sanitizers+=("$2") ;;
      esac
      shift
      ;;
    --no-figures) figures=no ;;
    --build-only) run=no ;;
    --help)
      usage
      exit 0
      ;;
    *) fail "unknown option '$1'; --help lists them" ;;
  esac
  shift
done

if [ -z "$out" ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out/common/core/optimizer"

# As common/core/optimizer/meson.build makes it.
awk -F '[(, ]+' '/^ *X[(]/ { print "#include <common/core/optimizer/rules/" $4 ".h>" }' \
  "$root/common/include/psclient/ps_optimizer.h" >"$out/common/core/optimizer/optimizer_files.h"

# ---- The module ----

if [ -z "$module" ]; then
  if [ -z "$nvcc" ]; then
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  fi
  [ -x "$nvcc" ] || fail "there is no nvcc: install the CUDA toolkit, or say NVCC=..."
  flags=$(sh "$root/client/device/cuda/nvcc.sh" flags "$nvcc") || fail "nvcc does not work"
  for name in cudnn gang module nccl sort team update; do
    # shellcheck disable=SC2086
    "$nvcc" $flags -I"$root" -I"$root/client/include/psclient" -I"$root/common/include/psclient" -I"$out" -c "$root/client/device/cuda/$name.cu" -o "$out/$name.o"
  done
  module=$out/libpsclient-cuda.so
  "$nvcc" -shared "$out/cudnn.o" "$out/gang.o" "$out/module.o" "$out/nccl.o" "$out/sort.o" "$out/team.o" "$out/update.o" -lcublas -ldl -o "$module"
  echo "# built libpsclient-cuda.so"
fi

# ---- The tests: the parts of libpsclient that use devices, and the table of operations ----

cflags=(-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -ffp-contract=off -fno-math-errno
  -I"$root" -I"$root/client/include/psclient" -I"$root/common/include/psclient" -I"$out")
sources=(common/core/base/base.c common/core/codec/isa.c common/core/base/number.c common/core/optimizer/optimizer.c common/core/optimizer/optimizer_isa.c common/core/optimizer/optimizer_plain.c
  common/core/optimizer/optimizer_text.c common/core/base/ps_err.c common/core/model/schedule.c common/core/base/text.c common/core/base/utf8.c common/core/base/nearest.c client/device/device.c client/device/device_ops.c client/device/device_module.c client/device/device_codec.c client/device/device_cuda.c
  client/device/device_gang.c client/device/cpu/device_gang_cpu.c client/device/device_optimizer.c client/device/device_staging.c client/device/device_team.c
  client/device/window.c
  client/network/layer.c client/network/layers/*.c client/network/network.c client/network/network_batch.c client/network/network_run.c client/network/network_params.c client/network/network_text.c
  common/core/model/initializer.c tests/unit/client/device/conformance*.c client/device/cuda/alone*.c tests/bench/alone_steps.c)
libraries=(-lm -ldl)
objects=()

compile() {
  local object
  object=$out/$(echo "$1" | tr / _).o
  # shellcheck disable=SC2086
  "$cc" "${cflags[@]}" ${CFLAGS:-} "${@:2}" -c "$root/$1" -o "$object"
  objects+=("$object")
}

if [ "$(uname -m)" = x86_64 ]; then
  compile common/core/optimizer/optimizer_avx2.c -mavx2
  compile common/core/optimizer/optimizer_avx512.c -mavx512f
fi
blas=$(pkg-config --cflags openblas 2>/dev/null || true) # the CPU, to compare a training step with
# shellcheck disable=SC2086
if [ "$figures" = yes ] && echo '#include <cblas.h>' | "$cc" $blas -fsyntax-only -x c - 2>/dev/null; then
  # shellcheck disable=SC2206
  cflags+=($blas -DWITH_CPU)
  sources+=(client/device/cpu/device_cpu*.c common/system/cgroup.c)
  libraries+=(-lopenblas)
fi
cd "$root"
# shellcheck disable=SC2068
for source in ${sources[@]}; do
  compile "$source"
done
"$cc" "${objects[@]}" "${libraries[@]}" -o "$out/alone"
[ "$run" = yes ] || exit 0

# ---- Running ----

export PSD_CUDA_MODULE=$module
"$out/alone" "$device" test
for tool in ${sanitizers[@]+"${sanitizers[@]}"}; do
  command -v compute-sanitizer >/dev/null || fail "there is no compute-sanitizer"
  echo "# compute-sanitizer --tool $tool"
  compute-sanitizer --tool "$tool" --error-exitcode 3 "$out/alone" "$device" test
done
if [ "$figures" = yes ]; then
  "$out/alone" "$device" figures
fi
