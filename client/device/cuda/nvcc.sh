#!/bin/sh
# nvcc for meson and for build.sh.
#
#   nvcc.sh flags NVCC                 what to compile with, a line each; fails, with the reason, when nvcc cannot
#   nvcc.sh compile MUST NVCC ...      nvcc with these arguments, the last two "-o OUTPUT"
#   nvcc.sh link MUST NVCC ...         the same
#
# MUST "no": a failure is printed, but is none: OUTPUT then holds a line of text, which the loader of modules refuses.
set -u

say() {
  printf 'nvcc.sh: %s\n' "$*" >&2
}

# Code for the data centres' GPUs of today, and PTX, which the driver makes code of for all others: of the oldest
# architecture that this nvcc still knows, and of the newest, for GPUs that come later.
flags() {
  codes=$("$1" --list-gpu-code 2>/dev/null | sed -n 's/^sm_\([0-9]*\)$/\1/p' | sort -n)
  oldest=
  newest=
  for code in $codes; do
    newest=$code
    if [ "$code" -ge 70 ] && [ -z "$oldest" ]; then
      oldest=$code
    fi
    case $code in
      80 | 90) printf '%s\n' -gencode "arch=compute_$code,code=sm_$code" ;;
    esac
  done
  printf '%s\n' -gencode "arch=compute_${oldest:-70},code=compute_${oldest:-70}"
  if [ -n "$newest" ] && [ "$newest" -ne "$oldest" ]; then
    printf '%s\n' -gencode "arch=compute_$newest,code=compute_$newest"
  fi
  printf '%s\n' -std=c++17 -O3 -fmad=false -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wno-unused-function
}

# Whether it compiles the module's parts: its own headers, cuBLAS's and CUB's, and C++ by the host's compiler.
probe() {
  work=$(mktemp -d) || return 1
  printf '%s\n' '#include <cublas_v2.h>' '#include <cub/device/device_radix_sort.cuh>' '#include <cuda_runtime.h>' \
    'template <typename T> __global__ void k(const __grid_constant__ T x, T *y) { *y = __shfl_xor_sync(~0u, x, 1); }' \
    'void f(float *y) { k<float><<<1, 32>>>(1.0f, y); }' >"$work/probe.cu"
  # shellcheck disable=SC2046
  "$1" $(flags "$1") -c "$work/probe.cu" -o "$work/probe.o" >"$work/out" 2>&1
  result=$?
  [ "$result" -eq 0 ] || head -n 3 "$work/out" >&2
  rm -rf "$work"
  return "$result"
}

run() {
  must=$1
  shift
  for output in "$@"; do :; done # the last
  "$@" && return 0
  if [ "$must" = yes ]; then
    return 1
  fi
  say "warning: $output was not made; psd goes without its CUDA module (-Dcuda=enabled makes this an error)"
  echo 'The CUDA module was not built: nvcc failed.' >"$output"
}

case ${1-} in
  flags)
    probe "$2" || exit 1
    flags "$2"
    ;;
  compile | link)
    shift
    run "$@"
    ;;
  *)
    say "usage: nvcc.sh flags NVCC | compile MUST NVCC ... -o OUTPUT | link MUST NVCC ... -o OUTPUT"
    exit 2
    ;;
esac
