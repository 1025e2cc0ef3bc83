#!/usr/bin/env bash
# Run every test: install what they need, build in several ways, test each build, count.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=../deploy/packages.sh
. "$root/deploy/packages.sh"

stages=(gcc asan tsan)
builds=$root/build-tests
install=yes
jobs=$(nproc)
only=()
passed=0
failed=0
skipped=0
again=0
unbuilt=()

usage() {
  cat <<END
usage: tests/run.sh [options] [test...]

Build in build-tests/ and run all tests, in each of these stages:

  gcc     optimized, all tests; for 30 s of them the simulator runs seeds that nobody has seen (PSD_TEST_SEED: those)
  asan    clang with the address and undefined-behaviour sanitizers, all tests but the mutations, which try the
          simulator, its fresh seeds, and suite "source", which is of the tree and its scripts
  tsan    gcc's thread sanitizer, the tests of suite "thread" and what they need

and, when they are asked for by name:

  clang     clang, optimized, the same tests as asan
  valgrind  the tests of suite "memory": all modules, and some runs of the simulator; this takes half an hour

  --quick          the stage gcc alone
  --stages A,B     these stages (default gcc,asan,tsan)
  --jobs N         processes at once (default: the cores, $jobs)
  --no-install     install nothing
  --help           print this

Names of tests after the options run those alone. The last line is "N passed, N failed" with ", N skipped" when
some were; the exit status is 0 only when none failed and some ran.

System tests get networks of their own, so that several run at once; where the kernel refuses that they take turns.

A test of suite "system" or "thread" that failed is run once more when nothing else runs: it is made of real processes
that wait for one another, and on a machine that others load one may wait in vain. If it passes then, it counts as passed
where its first failure was a time-out, and as failed where it was anything else, such as an error of psd's. Either is
listed before the last line, with the end of its first log. All other tests, a sanitizer's report, a crash, and more than
five failures of a stage get no second look.
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

[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || fail "--jobs: expected a whole number from 1, got '$jobs'"
[ "${#stages[@]}" -gt 0 ] || fail "--stages: expected one of gcc, asan, tsan, clang and valgrind"
for name in "${stages[@]}"; do
  case $name in
    gcc | asan | tsan | clang | valgrind) ;;
    *) fail "--stages: there is no stage '$name'; the stages are gcc, asan, tsan, clang and valgrind" ;;
  esac
done

# need PROGRAM...: before a build begins that cannot end.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || fail "$program is not installed; run this without --no-install"
  done
}

say() { printf '\n== %s\n' "$*"; }

# ---- stages: how each is configured and what of it is run ----

configure() {
  local sanitize=(-Ddebug=true -Doptimization=1 -Db_lundef=false -Dtests=enabled)
  case $1 in
    gcc) CC=gcc meson setup "$2" "$root" --buildtype=release -Dtests=enabled ;;
    clang) CC=clang meson setup "$2" "$root" --buildtype=release -Dtests=enabled ;;
    valgrind) CC=gcc meson setup "$2" "$root" --buildtype=debugoptimized -Dtests=enabled ;;
    asan)
      # Vectorized loops are demanded of the other stages: instrumented they cannot be had.
      CC=clang meson setup "$2" "$root" "${sanitize[@]}" -Db_sanitize=address,undefined \
        "-Dc_args=['-fno-sanitize-recover=all', '-fno-omit-frame-pointer', '-Wno-pass-failed']"
      ;;
    tsan) # with sanitizers gcc sees ghosts, so warnings are the other stages' business
      CC=gcc meson setup "$2" "$root" "${sanitize[@]}" -Db_sanitize=thread -Dwerror=false \
        "-Dc_args=['-fno-sanitize-recover=all', '-fno-omit-frame-pointer']"
      ;;
  esac
}

# A test's own processes are checked as well: valgrind follows forks, and a report is an exit status that no test
# expects.
valgrind="valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --suppressions=$root/tests/valgrind.supp"

# The tests of a stage, as meson selects them.
selection_of() {
  case $1 in
    asan | clang) selection=(--no-suite mutation --no-suite fresh --no-suite source) ;;
    tsan) selection=(--suite thread) ;;
    valgrind) selection=(--suite memory) ;;
    *) selection=() ;;
  esac
  selection+=(${only[@]+"${only[@]}"})
}

# The sanitizers cost time, and every report must fail the test that made it.
run_tests() {
  local options=(--num-processes "$jobs") patience=1 selection
  selection_of "$1"
  case $1 in
    asan) options+=(--timeout-multiplier 5) ;;
    tsan) options+=(--timeout-multiplier 10) ;;
    valgrind)
      options+=(--timeout-multiplier 10 --wrapper "$valgrind")
      patience=5 # also of Check, with each case
      ;;
    *) options+=(--timeout-multiplier 2) ;;
  esac
  if [ "${#only[@]}" -gt 0 ]; then
    options+=(--maybe-none) # a name may be another stage's
  fi
  ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=1:strict_string_checks=1} \
    UBSAN_OPTIONS=${UBSAN_OPTIONS:-abort_on_error=1:print_stacktrace=1} \
    TSAN_OPTIONS=${TSAN_OPTIONS:-abort_on_error=1:halt_on_error=1} CK_TIMEOUT_MULTIPLIER=$patience \
    "$root/tests/look.py" "${options[@]}" "$2" "$builds/$1.counts" -- ${selection[@]+"${selection[@]}"}
}

stage() {
  local dir=$builds/$1 status=0 begun=$SECONDS counts targets
  mkdir -p "$builds"
  if ! [ -f "$dir/build.ninja" ]; then
    say "$1: configuring"
    rm -rf "$dir"
    configure "$1" "$dir" >"$builds/$1.log" 2>&1 || status=$?
  fi
  if [ "$status" -eq 0 ]; then
    say "$1: building"
    targets=()
    if [ "$1" = tsan ] && ninja -C "$dir" build.ninja >"$builds/$1.log" 2>&1; then
      mapfile -t targets < <("$root/tests/targets.py" "$dir" --suite thread)
    fi
    : >"$builds/$1.log"
    progress_run "$builds/$1.log" progress_of_ninja ninja -C "$dir" -j "$jobs" ${targets[@]+"${targets[@]}"} || status=$?
  fi
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$builds/$1.log"
    unbuilt+=("$1")
    return
  fi
  say "$1: testing (built in $((SECONDS - begun)) s)"
  begun=$SECONDS
  rm -f "$builds/$1.counts" "$builds/$1.counts.again"
  run_tests "$1" "$dir" || true # it has counted
  if ! read -r -a counts <"$builds/$1.counts"; then
    echo "$1: the tests were not counted"
    counts=(0 1 0 0)
  fi
  passed=$((passed + counts[0]))
  failed=$((failed + counts[1]))
  skipped=$((skipped + counts[2]))
  again=$((again + counts[3]))
  say "$1: tested in $((SECONDS - begun)) s: ${counts[0]} passed, ${counts[1]} failed, ${counts[2]} skipped"
}

if [ "$install" = yes ]; then
  packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_TESTS[@]}" || exit 1
fi
need meson ninja python3
for name in "${stages[@]}"; do
  case $name in
    gcc | tsan) need gcc ;;
    valgrind) need gcc valgrind ;;
    *) need clang ;;
  esac
done
started=$SECONDS
for name in "${stages[@]}"; do
  stage "$name"
done

say "done in $((SECONDS - started)) s"
if [ "${#unbuilt[@]}" -gt 0 ]; then
  echo "not built: ${unbuilt[*]} (each counts as one failed; the ends of their logs are above)"
  failed=$((failed + ${#unbuilt[@]}))
fi
if [ "$again" -gt 0 ]; then
  echo "$again of the tests passed only when run alone; their whole logs are above:"
  for name in "${stages[@]}"; do
    sed "s/^!!!!/!!!! $name:/" "$builds/$name.counts.again" 2>/dev/null || true
  done
fi
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
if [ "${#only[@]}" -gt 0 ] && [ $((passed + failed + skipped)) -eq 0 ]; then
  echo "run.sh: no test of these stages is called ${only[*]}; meson test -C $builds/${stages[0]} --list names them" >&2
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
