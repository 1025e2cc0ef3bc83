#!/usr/bin/env bash
# What scripts of deploy/ and tests/ say of wrong arguments and of programs that are not there: one line with what is
# wrong, and status 2. Nothing is built or started. Prints TAP; tap.sh says the rest.
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
source=$(cd "${PSD_SOURCE_DIR:-$here/../..}" && pwd)

# wrong SENTENCE LINE SCRIPT ARGS...: all that it says is this line, with status 2. Only a shell and a few tools that every
# system has are in PATH: a script that takes what it should refuse can begin no build.
wrong() {
  local sentence=$1 line=$2 script=$3
  shift 3
  PATH=$work/few "$(command -v bash)" "$source/$script" "$@" >"$work/out" 2>"$work/err" </dev/null
  is "2 $line" "$? $(cat "$work/out" "$work/err")" "$sentence"
}
mkdir "$work/few"
for program in dirname nproc sed tr; do
  ln -s "$(command -v "$program")" "$work/few/$program"
done

wrong "run.sh names a stage that there is not" \
  "run.sh: --stages: there is no stage 'msan'; the stages are gcc, asan, tsan, clang and valgrind" \
  tests/run.sh --no-install --stages gcc,msan
wrong "and needs one" "run.sh: --stages: expected one of gcc, asan, tsan, clang and valgrind" \
  tests/run.sh --no-install --stages ''
wrong "and a number of processes" "run.sh: --jobs: expected a whole number from 1, got '0'" tests/run.sh --jobs 0
wrong "and a value" "run.sh: --jobs: expected a value after it" tests/run.sh --jobs
wrong "it says which program it needs" "run.sh: meson is not installed; run this without --no-install" \
  tests/run.sh --no-install --quick
wrong "fuzz/run.sh wants a time" "run.sh: expected for how many seconds each target runs; --help says more" \
  tests/fuzz/run.sh soon
wrong "and clang" "run.sh: clang is not installed; on Debian: apt-get install clang meson ninja-build" \
  tests/fuzz/run.sh 1 frame
wrong "apart.sh wants a command" \
  "apart.sh: expected a command to run, as in tests/apart.sh build/tests/system/test_daemon" tests/apart.sh
wrong "quickstart.sh wants whole numbers" "quickstart: --shards: expected a whole number from 1, got '0'" \
  deploy/quickstart.sh --no-install --shards 0
wrong "in both forms" "quickstart: --workers: expected a whole number from 1, got 'x'" \
  deploy/quickstart.sh --no-install --workers=x
wrong "drill.sh wants a worker" \
  "drill: expected the worker's program after --, as in deploy/drill.sh -- ./my_worker; --help says more" deploy/drill.sh
wrong "and a time" "drill: --timeout: expected a time such as 90, 10m or 1h, got 'soon'" \
  deploy/drill.sh --timeout soon -- true
wrong "and a directory" \
  "drill: $work/none is no directory that can be written to; --disk and TMPDIR name another than /tmp" \
  deploy/drill.sh --disk "$work/none" -- true
wrong "make-debs.sh names an option that it does not have" "make-debs: unknown option '--outt'; --help lists them" \
  deploy/make-debs.sh --outt x
wrong "and make-certs.sh" "make-certs.sh: there is no option --day; --help says more" deploy/make-certs.sh --day 3 x y=

done_testing
