#!/usr/bin/env bash
# tests/look.py, which run.sh counts by: a project of a few tests of all kinds is run with it. Prints TAP.
#
# The tests inside expand their own variables (SC2016).
# shellcheck disable=SC2016
set -uo pipefail

source=${PSD_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failures=0

ok() {
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    failures=$((failures + 1))
    sed 's/^/# /' "$work/out"
  fi
}

# a_test NAME SUITE PROTOCOL COMMANDS [SECONDS]: of the project.
a_test() {
  printf '#!/bin/sh\n%s\n' "$4" >"$work/project/$1.sh"
  chmod +x "$work/project/$1.sh"
  echo "test('$1', find_program('$1.sh'), suite: '$2', protocol: '$3', timeout: ${5:-120}, is_parallel: false)" >>"$work/project/meson.build"
}

# looks COUNTS STATUS SENTENCE: the totals of the project's tests.
looks() {
  local status got
  rm -rf "$work/build" "$work/state"
  mkdir "$work/state"
  (cd "$work/project" && meson setup "$work/build") >"$work/out" 2>&1
  STATE=$work/state "$source/tests/look.py" "$work/build" "$work/counts" >"$work/out" 2>&1
  status=$?
  got=$(cat "$work/counts")
  echo "counts $got, status $status" >>"$work/out"
  [ "$got $status" = "$1 $2" ]
  ok $? "$3 ($1)"
}

# project: a new one. Where all tests are of one suite meson leaves it out of their names, so it has a test of another.
project() {
  rm -rf "$work/project"
  mkdir "$work/project"
  echo "project('p', meson_version: '>=1.0.0')" >"$work/project/meson.build"
  a_test fine unit exitcode 'exit 0'
}

says() { grep -qF -- "$1" "$work/out"; }

# once WORDS: fails the first time, with these words.
once() { printf 'if mkdir "$STATE/$(basename "$0")"; then echo "%s"; exit 1; fi' "$1"; }
waited='TIMEOUT: worker 1: waited 10000 ms for shard 0'
wrong='INVALID: the step up to 0:2 begins before 0:1'
tap='echo "ok 1 - one"; echo "ok 2 - two # SKIP no"; echo "1..2"'

# tap_once WORDS...: a TAP test one case of which fails the first time, with these lines under it.
tap_once() {
  printf 'if mkdir "$STATE/$(basename "$0")"; then echo "ok 1 - one"; echo "not ok 2 - two"; '
  printf 'echo "%s"; ' "$@"
  printf 'echo "ok 3 - TIMEOUT is a word here"; echo "1..3"; exit 1; fi; %s' "$tap"
}

project
a_test cases system tap "$tap"
a_test skips unit exitcode 'exit 77'
a_test chance system exitcode "$(once "$waited")"
a_test chance_of_cases thread tap "$(tap_once '# Assertion failed' "# $waited")"
a_test chance_of_check system tap "$(tap_once '# (after this point) Test timeout expired')"
looks '5 0 4 3' 0 "a system or thread test that waited in vain and passes at the second look has passed"
says '!!!! passed only when run alone: p:system / chance (time-out, counts as passed)' && says "     $waited"
ok $? "which is listed, with the end of the log of the first look"

project
a_test error system exitcode "$(once "$wrong")"
a_test error_of_cases system tap "$(tap_once "# $wrong")"
a_test both thread tap "$(tap_once "# $waited" "# $wrong")"
a_test assertion system tap "$(tap_once "# Assertion 'a == b' failed")"
a_test late thread tap "if mkdir \"\$STATE/late\"; then echo 'not ok 1 - one'; echo '# $wrong'; exec sleep 1000; fi; $tap" 2
looks '7 5 0 5' 1 "one that failed otherwise and passes at the second look has failed"
says '!!!! passed only when run alone: p:system / error_of_cases (no time-out, counts as failed)' && says "     # $wrong"
ok $? "which is listed, too"

project
a_test chance unit exitcode "$(once "$waited")"
a_test sim sim tap "$(tap_once "# $waited")"
a_test report thread exitcode "echo 'WARNING: ThreadSanitizer: data race' >&2; $(once "$waited")"
a_test crash system tap "echo '# Received signal 11 (Segmentation fault)'; $(tap_once "# $waited")"
looks '5 4 0 0' 1 "other tests, a sanitizer's report and a crash get no second look"

project
a_test broken system tap 'echo "ok 1 - one"; echo "not ok 2 - two"; echo "not ok 3 - three"; echo "1..3"'
a_test crashes system exitcode 'kill -ABRT $$'
a_test late system tap 'exec sleep 1000' 1
looks '2 4 0 0' 1 "what is broken, dies or hangs fails twice and counts once"

project
for i in 1 2 3 4 5 6; do
  a_test "chance$i" system exitcode "$(once "$waited")"
done
looks '1 6 0 0' 1 "many failures are no chance"

echo "1..$number"
exit "$((failures > 0))"
