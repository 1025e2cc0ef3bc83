#!/usr/bin/env bash
# Run every test: install what they need, build in several ways, test each build, count.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=../deploy/packages.sh
. "$root/deploy/packages.sh"

stages=(gcc asan tsan clang)
builds=$root/build-tests
install=yes
jobs=$(nproc)
only=()
passed=0
failed=0
skipped=0
unbuilt=()

usage() {
  cat <<END
usage: tests/run.sh [options] [test...]

Build in build-tests/ and run all tests, in each of these stages:

  gcc     optimized, all tests; for 90 s of them the simulator runs seeds that nobody has seen (PSD_TEST_SEED: those)
  asan    gcc's address and undefined-behaviour sanitizers, all tests but the planted bugs, which try the simulator,
          and its fresh seeds
  tsan    gcc's thread sanitizer, the tests of suite "thread"
  clang   clang, the same as asan

and, when it is asked for by name, since it takes half an hour:

  valgrind  the tests of suite "memory": all modules, and some runs of the simulator

  --quick          the stage gcc alone
  --stages A,B     these stages (default gcc,asan,tsan,clang)
  --jobs N         processes at once (default: the cores, $jobs)
  --no-install     install nothing
  --help           print this

Names of tests after the options run those alone. The last line is "N passed, N failed" with ", N skipped" when some
were; the exit status is 0 only when none failed and some ran.
END
}

fail() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

# value OPTION ARGUMENTS...: fails unless there is something after the option.
value() {
  if [ $# -lt 2 ]; then
    fail "$1: expected a value after it"
  fi
}

while [ $# -gt 0 ]; do
  case $1 in
    --quick) stages=(gcc) ;;
    --stages)
      value "$@"
      IFS=, read -r -a stages <<<"$2"
      shift
      ;;
    --jobs)
      value "$@"
      jobs=$2
      shift
      ;;
    --no-install) install=no ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) fail "unknown option '$1'; --help lists them" ;;
    *) only+=("$1") ;;
  esac
  shift
done

say() { printf '\n== %s\n' "$*"; }

# ---- stages: how each is configured and what of it is run ----

configure() {
  # Warnings are the other stages' business: with sanitizers gcc sees ghosts.
  local sanitize=(-Ddebug=true -Doptimization=1 -Dwerror=false -Db_lundef=false
    "-Dc_args=['-fno-sanitize-recover=all', '-fno-omit-frame-pointer']" -Dtests=enabled)
  case $1 in
    gcc) CC=gcc meson setup "$2" "$root" --buildtype=release -Dtests=enabled ;;
    clang) CC=clang meson setup "$2" "$root" --buildtype=release -Dtests=enabled ;;
    valgrind) CC=gcc meson setup "$2" "$root" --buildtype=debugoptimized -Dtests=enabled ;;
    asan) CC=gcc meson setup "$2" "$root" "${sanitize[@]}" -Db_sanitize=address,undefined ;;
    tsan) CC=gcc meson setup "$2" "$root" "${sanitize[@]}" -Db_sanitize=thread ;;
    *) fail "unknown stage '$1'; the stages are gcc, asan, tsan, clang, valgrind" ;;
  esac
}

# What a test's own processes do is looked at as well: valgrind stays with forks, and a report is an exit status that no
# test expects.
valgrind="valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --suppressions=$root/tests/valgrind.supp"

# The sanitizers cost time, and every report must fail the test that made it.
run_tests() {
  local arguments=(--no-rebuild --print-errorlogs --num-processes "$jobs") patience=1
  case $1 in
    asan) arguments+=(--timeout-multiplier 5 --no-suite planted --no-suite fresh) ;;
    tsan) arguments+=(--timeout-multiplier 10 --suite thread) ;;
    valgrind)
      arguments+=(--timeout-multiplier 10 --suite memory --wrapper "$valgrind")
      patience=5 # also of Check, with each case
      ;;
    clang) arguments+=(--timeout-multiplier 2 --no-suite planted --no-suite fresh) ;;
    *) arguments+=(--timeout-multiplier 2) ;;
  esac
  ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=1:strict_string_checks=1} \
    UBSAN_OPTIONS=${UBSAN_OPTIONS:-abort_on_error=1:print_stacktrace=1} \
    TSAN_OPTIONS=${TSAN_OPTIONS:-abort_on_error=1:halt_on_error=1} CK_TIMEOUT_MULTIPLIER=$patience \
    meson test -C "$2" "${arguments[@]}" ${only[@]+"${only[@]}"}
}

# ---- counting ----

# "tests failures skipped silent" of a run. meson makes a <testsuite> named "project.suite / test" of each test that
# speaks TAP, and one of all others. A test that crashed or ran out of time may have reported no failure of its own:
# those are silent.
results() {
  local unhappy
  unhappy=$(grep -cE '"result": "(FAIL|ERROR|TIMEOUT|INTERRUPT|UNEXPECTEDPASS)"' "$2" || true)
  { grep -o '<testsuite [^>]*>' "$1" || true; } | awk -v unhappy="$unhappy" '
    function attribute(name) {
      return match($0, " " name "=\"[0-9]+\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) + 0 : 0
    }
    {
      bad = attribute("failures") + attribute("errors")
      tests += attribute("tests"); failures += bad; skipped += attribute("skipped")
      told += ($0 ~ / \/ / && bad > 0) ? 1 : bad
    }
    END { silent = unhappy - told; print tests + 0, failures + 0, skipped + 0, (silent > 0 ? silent : 0) }'
}

# Add a finished stage's results to the counts.
count() {
  local junit=$1/meson-logs/testlog.junit.xml json=$1/meson-logs/testlog.json tests bad not_run silent
  if ! [ -s "$junit" ] || ! [ -s "$json" ]; then
    return 1
  fi
  read -r tests bad not_run silent < <(results "$junit" "$json")
  passed=$((passed + tests - not_run - bad))
  skipped=$((skipped + not_run))
  failed=$((failed + bad + silent))
}

stage() {
  local dir=$builds/$1 status=0 before
  mkdir -p "$builds"
  if ! [ -f "$dir/build.ninja" ]; then
    say "$1: configuring"
    rm -rf "$dir"
    configure "$1" "$dir" >"$builds/$1.log" 2>&1 || status=$?
  fi
  if [ "$status" -eq 0 ]; then
    say "$1: building"
    ninja -C "$dir" -j "$jobs" >"$builds/$1.log" 2>&1 || status=$?
  fi
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$builds/$1.log"
    unbuilt+=("$1")
    return
  fi
  say "$1: testing"
  rm -f "$dir/meson-logs/testlog.junit.xml" "$dir/meson-logs/testlog.json"
  before=$failed
  run_tests "$1" "$dir" || status=$?
  if ! count "$dir" && [ "${#only[@]}" -eq 0 ]; then
    echo "no test was run"
    status=1
  fi
  if [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ]; then
    failed=$((failed + 1)) # meson failed before or after the tests themselves
  fi
}

if [ "$install" = yes ]; then
  packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_TESTS[@]}" || exit 1
fi
started=$SECONDS
for name in "${stages[@]}"; do
  stage "$name"
done

say "done in $((SECONDS - started)) s"
if [ "${#unbuilt[@]}" -gt 0 ]; then
  echo "not built: ${unbuilt[*]} (each counts as one failed; the ends of their logs are above)"
  failed=$((failed + ${#unbuilt[@]}))
fi
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
