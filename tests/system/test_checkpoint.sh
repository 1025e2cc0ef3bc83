#!/usr/bin/env bash
# psctl's save, checkpoint and restore, and reading the files with other programs. Prints TAP; tap.sh says which
# executables are used.
#
# Helpers are called by name (SC2317).
# shellcheck disable=SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=psctl.sh
. "$here/psctl.sh"

disk=$work/disk
models=$work/models

# run SHARDS OPTION...: a run of the digits that leaves its shards; PSD_SHARDS and $stop are theirs.
run() {
  local shards=$1
  shift
  PSD_TEST_MARK=$mark "$PSRUN" --shards "$shards" --workers 2 --keep-servers "$@" -- \
    "$DIGITS" --strategy sync --epochs 1 --data "$data" --svg '' >"$work/out" 2>"$work/err" </dev/null
  status=$?
  PSD_SHARDS=$(sed -n 's/.*export PSD_SHARDS=\([^ ]*\) .*/\1/p' "$work/err")
  stop=$(sed -n 's/^psrun *|   \(kill .*\)/\1/p' "$work/err")
  export PSD_SHARDS
}

mkdir "$disk"
run 2 --durable-dir "$disk"
is 0 "$status" "a run leaves its shards"

psctl save
[ "$status" -eq 0 ] && has "^shard 0 at ${PSD_SHARDS%,*}: save [0-9]+, [0-9]+ blocks, .* written in " && has '^shard 1 at '
ok $? "save says what each shard wrote"
psctl save --shard 1
[ "$status" -eq 0 ] && has '^shard 1 at ' && ! has '^shard 0 at '
ok $? "or one of them"
psctl status
has "^0 ${PSD_SHARDS%,*} serving .* [0-9]+, [0-9.]+ m?s ago$"
ok $? "and status says when that was"

psctl checkpoint "$models" --name one
is "0 checkpoint $models/one; 2 shards" "$status $(cat "$work/out")" "a checkpoint is written where it was asked for"
"$here/read_checkpoint.py" "$models/latest" >"$work/read" 2>"$work/err" &&
  grep -q '^dense0/weights 64x128 ' "$work/read"
ok $? "Python reads it with its own library alone"

"$here/read_checkpoint.py" "$models/latest" --package >"$work/out" 2>"$work/err"
case $? in
  0) is "$(cat "$work/read")" "$(cat "$work/out")" "the safetensors package reads the same weights" ;;
  77) skip "the safetensors package reads the same weights" "it is not installed" ;;
  *) ok 1 "the safetensors package reads the same weights" ;;
esac

psctl checkpoint "$models" --keep 1
[ "$status" -eq 0 ] && has "^checkpoint $models/clock-[1-9][0-9]*; 2 shards$" && [ ! -e "$models/one" ]
ok $? "it is named by its clock, and the older one is removed"
cp -r "$models/latest/." "$work/kept"
psctl checkpoint "$models" --name one
psctl checkpoint "$models" --name one
[ "$status" -eq 3 ] && says err 'is there already'
ok $? "a name that is taken is refused"
psctl checkpoint
is 2 "$status" "a directory is asked for"
psctl checkpoint "$models" --job nobody
is 3 "$status" "a job that is not there is refused"
psctl checkpoint ''
is 2 "$status" "and has a name"
psctl checkpoint --at-clock 1 "$models"
[ "$status" -eq 0 ] && has "^checkpoint $models/clock-[1-9][0-9]+(-[0-9]+)?; " && [ ! -e "$models/clock-1" ]
ok $? "one of a clock that has passed is called by the one that it has"
psctl checkpoint --at-clock 1000000 --timeout 2s "$models"
[ "$status" -eq 1 ] && says err 'shard 0 at .*; it waits for clock 1000000, the job was between [1-9]'
ok $? "who waits too long is told for what"
psctl checkpoint "$models" && newest=$(readlink "$models/latest") && psctl checkpoint "$models"
rm -r "$models/${newest%-*}-2"
psctl checkpoint "$models" && [ "$(readlink "$models/latest")" = "${newest%-*}-$((${newest##*-} + 2))" ]
ok $? "the newest has the highest number, though others are gone"
psctl checkpoint /proc/nowhere
is 1 "$status" "a directory that cannot be made is no refusal of the shards"

# begin_slow NAME: a checkpoint that waits for a clock that nobody reaches, in a process group of its own, so that bash
# does not have it ignore Ctrl-C; and nohup, under which these tests may run, not the end of a terminal.
begin_slow() {
  set -m
  env --default-signal=HUP "$PSCTL" checkpoint "$models" --at-clock 1000000 --name "$1" >"$work/out" 2>"$work/err" </dev/null &
  slow=$!
  set +m
  within [ -e "$models/$1.partial/slots.safetensors" ]
}

for signal in INT TERM HUP; do
  begin_slow "$signal"
  kill "-$signal" "$slow"
  wait "$slow"
  status=$?
  [ "$status" -eq $((128 + $(kill -l "$signal"))) ] && says err "given up; nothing of it is left in $models" &&
    [ ! -e "$models/$signal.partial" ] && [ ! -e "$models/$signal" ]
  ok $? "$signal takes a checkpoint back, and ends psctl"
done
a_shard() { marked | while read -r pid; do words "$pid" | head -n 1 | grep -q 'psd$' && echo "$pid" && break; done; }
begin_slow held
stopped=$(a_shard)
kill -STOP "$stopped"
kill -INT "$slow"
wait "$slow"
[ ! -e "$models/held.partial" ]
ok $? "also when a shard does not answer"
kill -CONT "$stopped"
psctl blocked
[ "$status" -eq 0 ] && ! has checkpoint
ok $? "and they know nothing of it any more"

# ---- restore ----

psctl restore "$models"
[ "$status" -eq 3 ] && says err "this is no checkpoint; the newest one in it is $models/latest"
ok $? "who names the directory of all is told of the newest"
psctl restore "$models/latest"
is "0 restored $models/latest; 2 shards" "$status $(cat "$work/out")" "a checkpoint goes back into its shards"
eval "$stop"
within none_marked
ok $? "the shards end"

run 3
is 0 "$status" "a run on three shards"
psctl restore "$work/kept"
is 0 "$status" "takes what two shards wrote"
psctl checkpoint "$models" --name three
cmp "$work/kept/weights.safetensors" "$models/three/weights.safetensors" &&
  cmp "$work/kept/slots.safetensors" "$models/three/slots.safetensors"
ok $? "to the last bit"
psctl snapshot diff --slots "$work/kept" "$models/latest"
is "0 0 of 20 tensors differ" "$status $(cat "$work/out")" "and snapshot diff finds no difference, without a shard"
psctl save
[ "$status" -eq 3 ] && says out 'has no durable directory to save to: psd --durable-dir gives it one'
ok $? "without a durable directory save is refused"
printf 'x' | dd of="$models/three/weights.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
psctl restore "$models/three"
[ "$status" -eq 3 ] && says err 'weights.safetensors: it is damaged'
ok $? "what is damaged is refused"
psctl snapshot diff "$work/kept" "$models/three"
[ "$status" -eq 1 ] && has '^dense0/weights 64x128 changed 1 8,192 ' && has '^1 of 4 tensors differ$'
ok $? "snapshot diff says what, and ends with 1"
psctl snapshot diff --json "$work/kept/weights.safetensors" "$models/three/slots.safetensors"
python3 - "$status" "$work/out" <<'EOF'
import json, sys
d = json.load(open(sys.argv[2]))
kinds = {t["name"]: t["kind"] for t in d["tensors"]}
assert sys.argv[1] == "1" and d["command"] == "snapshot" and d["different"] == d["all"] == 20
assert kinds["dense0/weights"] == "removed" and kinds["dense0/weights#0"] == "added"
assert d["tensors"][0]["before"]["dims"] == [128] and d["tensors"][0]["after"] is None
EOF
ok $? "as JSON, of two files"
psctl snapshot diff "$work/kept" "$work"
[ "$status" -eq 3 ] && says err 'this is no checkpoint'
ok $? "what is no checkpoint is refused"
psctl snapshot "$work/kept" "$models/three"
[ "$status" -eq 2 ] && says err 'expected diff A B'
ok $? "and what is no question"
eval "$stop"
within none_marked
done_testing
