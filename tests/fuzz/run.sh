#!/usr/bin/env bash
# Run every fuzz target under libFuzzer for a time: build with clang, start from the corpora here and from the finds of
# earlier runs, report executions and coverage, make findings small.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${PSD_FUZZ_DIR:-$root/build-fuzz}
targets=()
seconds=

usage() {
  cat <<END
usage: tests/fuzz/run.sh SECONDS [target...]

Build the fuzz targets in build-fuzz/ (or \$PSD_FUZZ_DIR) with clang, its address and undefined-behaviour sanitizers and
coverage, and run each, or those named, for SECONDS: $(known | tr '\n' ' ')

A row for each says how many inputs ran and how many a second, how many edges of the code that is built into it they
reached, of how many, how many features (edges with how often each was passed), and how many inputs are kept for that.
What crashes, hangs or leaks lies in findings/ beside the build, made smaller for half a minute. Inputs that reached
something new stay in corpus/ there, and the next run starts from them. The exit status is 1 when something was found.
END
}

known() { (cd "$here" && printf '%s\n' fuzz_*.c) | sed 's/^fuzz_//; s/\.c$//'; }

fail() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      usage
      exit 0
      ;;
    -*) fail "unknown option '$1'; --help lists them" ;;
    *) if [ -z "$seconds" ]; then seconds=$1; else targets+=("$1"); fi ;;
  esac
  shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "expected for how many seconds each target runs; --help says more"
if [ "${#targets[@]}" -eq 0 ]; then
  mapfile -t targets < <(known)
fi
for target in "${targets[@]}"; do
  [ -f "$here/fuzz_$target.c" ] || fail "there is no target '$target'; there are $(known | tr '\n' ' ')"
done

for program in clang meson ninja; do
  command -v "$program" >/dev/null || fail "$program is not installed; on Debian: apt-get install clang meson ninja-build"
done

# All of the code is instrumented, but for the kernels: these are slow, and the optimizers' tests cover them.
if ! [ -f "$build/build.ninja" ]; then
  CC=clang meson setup "$build" "$root" -Dfuzz=true -Dtests=enabled -Ddebug=true -Doptimization=1 -Dwerror=false \
    -Db_lundef=false -Db_sanitize=address,undefined \
    "-Dc_args=['-fsanitize=fuzzer-no-link', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer']" >/dev/null
fi
ninja -C "$build" "${targets[@]/#/tests/fuzz/fuzz_}" >"$build/build.log" || {
  tail -n 40 "$build/build.log"
  exit 1
}

export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=1:allocator_may_return_null=1}
export OPENBLAS_NUM_THREADS=1
findings=0
minimize_s=30 # of a finding, at most

# minimize TARGET FILE: libFuzzer counts the time of each step by itself, and takes any number of them.
minimize() {
  local program=$build/tests/fuzz/fuzz_$1 small=$2.min
  timeout -k 5 "$minimize_s" "$program" -minimize_crash=1 -runs=20000 -max_total_time=5 -timeout=10 \
    -exact_artifact_path="$small" "$2" >/dev/null 2>&1 || true
  [ -s "$small" ] && mv "$small" "$2"
  printf 'FOUND %s: %s (%s bytes); again with: %s %s\n' "$1" "$2" "$(stat -c %s "$2")" "$program" "$2"
}

row='%-11s %11s %9s %8s %8s %5s %9s %7s %9s\n'

# report TARGET LOG
report() {
  awk -v target="$1" -v row="$row" '
    /inline 8-bit counters/ { for (i = 2; i < NF; i++) if ($i ~ /^\([0-9]+$/) edges = substr($i, 2) }
    /^stat::number_of_executed_units:/ { runs = $2 }
    /^stat::average_exec_per_sec:/ { rate = $2 }
    / cov: / {
      for (i = 2; i < NF; i++) {
        if ($i == "cov:") cov = $(i + 1)
        if ($i == "ft:") ft = $(i + 1)
        if ($i == "corp:") inputs = $(i + 1) + 0
      }
    }
    END { printf row, target, runs, rate, cov, edges, edges ? int(100 * cov / edges) "%" : "", ft, inputs, found }
  ' found="$3" "$2"
}

# shellcheck disable=SC2059 # the row is the format
printf "$row" target executions a-second reached edges '' features inputs findings
for target in "${targets[@]}"; do
  found=$build/findings/$target
  log=$build/$target.log
  mkdir -p "$build/corpus/$target" "$found"
  touch "$build/started"
  "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -max_len=4096 -len_control=10 -print_final_stats=1 \
    -artifact_prefix="$found/" "$build/corpus/$target" "$here/corpus/$target" >"$log" 2>&1 || true
  mapfile -t new < <(find "$found" -type f -newer "$build/started" ! -name '*.min')
  report "$target" "$log" "${#new[@]}"
  for file in "${new[@]}"; do
    findings=$((findings + 1))
    grep -m 1 -E 'assertion failed|ERROR: |runtime error' "$log" || true
    minimize "$target" "$file"
  done
  if ! grep -q '^stat::number_of_executed_units' "$log"; then
    tail -n 20 "$log"
    findings=$((findings + 1))
  fi
done
[ "$findings" -eq 0 ]
