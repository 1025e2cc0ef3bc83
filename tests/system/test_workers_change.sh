#!/usr/bin/env bash
# More workers and fewer for one job on the shards of the first run, in every way of training on shards: the next run trains
# on with the model that is there. And the rate that psctl set has given it, in the program that is started next. Prints TAP;
# tap.sh says which executables are used.
#
# Helpers are called by name (SC2317).
# shellcheck disable=SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=psctl.sh
. "$here/psctl.sh"

# run WORKERS EPOCHS OPTIONS...: workers for the shards, until so many epochs have been done since the first run.
run() {
  local workers=$1 epochs=$2
  shift 2
  PSD_TEST_MARK=$mark "$PSRUN" --ps "$PSD_SHARDS" --workers "$workers" -- \
    "$DIGITS" --epochs "$epochs" --data "$data" --svg '' "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

# "(WORKERS, CLOCK)" of a job whose workers have ended, on both shards.
clock() {
  "$PSCTL" jobs --job "$1" --json | python3 -c 'import json, sys
jobs = [j for s in json.load(sys.stdin)["shards"] for j in s.get("report", s).get("job", [])]
assert len(jobs) == 2 and all(j["live"] == 0 for j in jobs), jobs
print(*sorted({(j["workers"], j["slowest_clock"]) for j in jobs}))'
}

PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 2 --cluster psd --keep-servers -- \
  "$DIGITS" --job first --epochs 1 --data "$data" --svg '' >"$work/out" 2>"$work/err" </dev/null
must $? "a run leaves its shards"
PSD_SHARDS=$(sed -n 's/.*export PSD_SHARDS=\([^ ]*\) .*/\1/p' "$work/err")
export PSD_SHARDS

# In async and ssp a worker that comes late begins where the others are, and its clock tells less.
for strategy in async ssp; do
  epochs=0
  for workers in 2 3 1; do
    epochs=$((epochs + 1))
    run "$workers" "$epochs" --job "$strategy" --strategy "$strategy"
    is "0 ($workers," "$status $(clock "$strategy" | cut -d' ' -f1)" "$strategy: an epoch with $workers workers, on all shards"
  done
done
for strategy in sync local_sgd; do
  each=16 options=(--job "$strategy" --strategy "$strategy")
  if [ "$strategy" = local_sgd ]; then
    each=2
    options+=(--local-steps 8)
  fi
  epochs=0
  for workers in 2 3 1; do
    epochs=$((epochs + 1))
    run "$workers" "$epochs" "${options[@]}"
    is "0 ($workers, $((each * epochs)))" "$status $(clock "$strategy")" "$strategy: an epoch with $workers workers, on all shards"
  done
done

psctl set --job sync workers=4
is "0 job \"sync\": workers=4; 2 shards" "$status $(cat "$work/out")" "psctl set gives the next round its number"
run 1 4 --job sync --strategy sync
[ "$status" -ne 0 ] && says err "MISMATCH: job 'sync' has 4 workers, no longer the 2 that it was opened with, and this one says 1: a new round waits"
ok $? "a process of the old number hears that it is too late"
run 4 4 --job sync --strategy sync
is "0 (4, 64)" "$status $(clock sync)" "and those of the new one train on"

psctl set --job sync learning_rate=0.0005
run 4 5 --job sync --strategy sync --optimizer adam:learning_rate=0.0005
is "0 (4, 80)" "$status $(clock sync)" "a program with the rate that was set is taken"
run 4 6 --job sync --strategy sync
is "0 (4, 96)" "$status $(clock sync)" "and one with the first"
run 4 7 --job sync --strategy sync --optimizer adam:learning_rate=0.3
[ "$status" -ne 0 ] && says err 'or adam:learning_rate=0.0005 since psctl set, not adam:learning_rate=0.3'
ok $? "another one is refused with both"
psctl variables --job sync
says out 'adam:learning_rate=0.0005 (declared: adam:learning_rate=0.001)'
ok $? "psctl variables shows both"

done_testing
