#!/usr/bin/env bash
# Workers that are killed with signal 9 in mid-training and started again by psrun, in every mode: the run ends well,
# and restarted workers took part. Prints TAP; tap.sh says which executables are used.
#
# Helpers are called by name (SC2317).
# shellcheck disable=SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

data=${PSD_SOURCE_DIR:-$here/../..}/client/examples/data/digits
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
STEPS=2400 # 150 epochs of 16

# start PSRUN'S OPTIONS -- DIGITS' OPTIONS: three workers train until the test ends them or they end. A fast machine needs
# a second for it: a worker is started again at once, so that it comes back in the midst.
start() {
  local options=()
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  : >"$work/out" # now, not when the run gets there: it is looked at already
  : >"$work/err"
  PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 3 --restart-delay 0 "${options[@]}" -- \
    "$DIGITS" --epochs 150 --data "$data" --svg '' "$@" >"$work/out" 2>"$work/err" </dev/null &
  psrun=$!
}

# joins TASK: "pid clock" of the task's joins on shard 0, one a line.
joins() { sed -n "s/^shard 0 .*worker [a-z]*joined .* task=$1 agent=\"[^\"]*:\\([0-9]*\\)\" .* clock=\\([0-9]*\\)\$/\\1 \\2/p" "$work/err"; }

joined() { [ "$(joins "$1" | wc -l)" -ge "$2" ]; }
trained() { says out "^worker 0 | epoch .* $1[0-9]%"; }
ended() { ! kill -0 "$psrun" 2>/dev/null; }
either() { "$@" || ended; }

# kill_worker TASK JOINS: kill the process that joined last, when it has joined so often; wait until another has joined
# in its place.
kill_worker() {
  local pid
  within either joined "$1" "$2"
  pid=$(joins "$1" | tail -n 1 | cut -d' ' -f1)
  [ -n "$pid" ] && kill -KILL "$pid"
  within either joined "$1" "$(($2 + 1))"
  says err "worker $1 (pid $pid) was killed by signal 9 (KILL"
  ok $? "worker $1 is killed, and it is said"
  clock=$(joins "$1" | tail -n 1 | cut -d' ' -f2)
  [ "${clock:-0}" -gt 0 ] && [ "$clock" -lt "$STEPS" ]
  ok $? "and its successor joins in the midst of the training, at clock $clock of $STEPS"
}

# finish WORKERS: the run ends, and at least so many workers stand where the training ends. A killed worker goes on with
# its own data from the clock of the slowest: where that lay behind its own, it is done a few clocks earlier; it repeats
# a lost step, and the others tick on meanwhile.
finish() {
  local clocks
  wait "$psrun"
  is 0 $? "the run ends well"
  clocks=$(sed -n 's/^shard 0 .*worker finished .* clock=\([0-9]*\)$/\1/p' "$work/err")
  is 3 "$(wc -w <<<"$clocks")" "every worker comes to its end"
  [ "$(awk -v steps="$STEPS" '$1 >= steps' <<<"$clocks" | wc -l)" -ge "$1" ]
  ok $? "with all steps done"
  none_marked
  ok $? "and nothing is left running"
}

accuracy() { sed -n 's/^worker 0 | held-out accuracy  \([0-9]*\).*/\1/p' "$work/out" | grep . || echo 0; }

for case in 'sync 1' 'ssp 1 --unix' 'async 2'; do
  read -r mode task transport <<<"$case"
  echo "# $mode${transport:+ over Unix sockets}"
  start --restart-workers 1 ${transport:+"$transport"} -- --strategy "$mode"
  within either trained 1
  kill_worker "$task" 1
  finish 2
  [ "$(accuracy)" -ge 95 ]
  ok $? "and the network has learnt the digits ($(accuracy) %)"
done

echo "# ssp, three times, worker 0 among them"
start --restart-workers 3 -- --strategy ssp --bound 2
within either trained 1
kill_worker 0 1
kill_worker 2 1
kill_worker 0 2
finish 1
[ "$(accuracy)" -ge 95 ]
ok $? "and the network has learnt the digits ($(accuracy) %)"

done_testing
