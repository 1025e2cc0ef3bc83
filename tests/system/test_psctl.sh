#!/usr/bin/env bash
# psctl against real shards that a training run has left behind, and against shards that are not there. Prints TAP;
# tap.sh says which executables are used.
#
# The workers' own variables are for their shells (SC2016); helpers are called by name (SC2317).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=psctl.sh
. "$here/psctl.sh"

# member NAME: the numbers that the JSON document gives for a name, one a line.
member() { sed -n "s/^ *\"$1\": \\([0-9]*\\),*\$/\\1/p" "$work/out"; }

total() { awk '{ n += $1 } END { print n + 0 }'; }

# ---- after a run ----

PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 2 --keep-servers -- \
  "$DIGITS" --epochs 2 --data "$data" --svg '' >"$work/out" 2>"$work/err" </dev/null
is 0 $? "a run leaves its shards"
PSD_SHARDS=$(sed -n 's/.*export PSD_SHARDS=\([^ ]*\) .*/\1/p' "$work/err")
stop=$(sed -n 's/^psrun *|   \(kill .*\)/\1/p' "$work/err")
export PSD_SHARDS

psctl status
[ "$status" -eq 0 ] && has '^cluster "local" of 2 shards, psd [0-9.]+$' && has "^0 ${PSD_SHARDS%,*} serving " &&
  has "^1 ${PSD_SHARDS#*,} serving " && has '^all '
ok $? "status shows both shards and their sum"

# The same from a description of the whole cluster, in which psctl has no place of its own.
export TF_CONFIG='{"cluster": {"worker": ["a:1"], "ps": ["'${PSD_SHARDS/,/\",\"}'"]}}'
psctl status
is "0 2" "$status $(grep -c ' serving ' "$work/out")" "a TF_CONFIG without a task says where the shards are"
export TF_CONFIG='{"cluster": {"worker": ["a:1"]}}'
psctl status
[ "$status" -eq 2 ] && says err "TF_CONFIG: cluster.ps: missing"
ok $? "and one without shards is refused"
unset TF_CONFIG

psctl variables
[ "$status" -eq 0 ] && has '^digits dense0/weights 64x128 all .* 0.001 adam' && has '^digits dense1/bias 10 ' && has '^total all '
ok $? "variables shows each variable and the total"

psctl variables --json
pushed=$(member pushed_bytes | total)
# Two workers, two epochs, every weight in every push: 4 bytes of gradient each.
[ "$pushed" -gt 0 ] && [ $((pushed % 4)) -eq 0 ] && [ "$(member bytes | total)" -ge $((4 * 9610 * 3)) ]
ok $? "bytes count weights and both of Adam's slots, traffic whole numbers"
weights=$pushed
psctl stats --json
is "$weights" "$(member pushed_bytes | total)" "the variables' pushed bytes add up to the shards'"

result=0
for command in jobs variables workers blocked top; do
  psctl "$command" --job nobody
  [ "$status" -eq 3 ] && says err '^psctl: the cluster has no job "nobody"; psctl jobs lists' && [ ! -s "$work/out" ] || result=1
done
ok "$result" "a job that no shard knows is refused, whatever is asked of it"
psctl workers --job digist
[ "$status" -eq 3 ] && says err '^psctl: the cluster has no job "digist"; .*; did you mean digits?'
ok $? "and the one that was meant is named"
psctl workers --job digits
[ "$status" -eq 0 ] && has '^digits 0 0 finished '
ok $? "--job asks for one job alone"

psctl top --all --interval 0.1
[ "$status" -eq 0 ] && has '^digits: rows [0-9,]+, loss [0-9.]+, accuracy 0[.][0-9]+, last_epoch_rows 0[.]'
ok $? "top calls what workers add up by its names"

psctl stats
[ "$status" -eq 0 ] && has '^pushes applied [1-9]' && has '^AGE BLOCKS SHARE' && has '^0 [0-9,]+ [0-9.]+ % #'
ok $? "stats shows counters and ages"

psctl workers
[ "$status" -eq 0 ] && has '^digits 0 0 finished ' && has '^digits 1 0 finished ' && has '^1 finished '
ok $? "workers shows that both have finished, on each shard"

psctl blocked
is "0 nobody waits" "$status $(cat "$work/out")" "blocked says when nobody waits"

psctl ping --count 5
[ "$status" -eq 0 ] && has "^0 ${PSD_SHARDS%,*} 5 [0-9.]+ [um]s [0-9.]+ [um]s [0-9.]+ [um]s$"
ok $? "ping shows least, median and most"

result=0
for command in status jobs variables stats workers blocked ping; do
  psctl "$command" --json
  [ "$status" -eq 0 ] && python3 -m json.tool "$work/out" >/dev/null && has "\"command\": \"$command\"" &&
    has '"not_reached": 0' || result=1
done
ok "$result" "--json prints one valid document for every question"

psctl variables --top 1
[ "$status" -eq 0 ] && has '^digits dense0/weights .* adam' && has '^and 3 more$' && ! has 'dense1'
ok $? "variables --top shows the largest"
psctl variables --variables dense0/wieghts
[ "$status" -eq 3 ] && says err 'no variable has a name that fits "dense0/wieghts"; psctl variables lists those that there are; did you mean dense0/weights?'
ok $? "a pattern that names nothing is refused, with the variable that was meant"
psctl variables --watch 0.2 --variables dense0/wieghts
[ "$status" -eq 3 ] && says err 'did you mean dense0/weights?'
ok $? "to be watched, too"
psctl variables --job digits --variables 'x*' --json
[ "$status" -eq 3 ] && says err 'no variable of job "digits" has a name that fits "x\*"' && says out '"code": "NOT_FOUND"'
ok $? "in JSON, too"
psctl variables --top 2 --by pushed --variables '*/bias' --json
python3 - "$work/out" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
top = d["top"]
assert d["command"] == "variables" and d["not_reached"] == 0 and [s["reached"] for s in d["shards"]] == [True, True]
assert sorted(v["name"] for v in top) == ["dense0/bias", "dense1/bias"] and top[0]["pushed_bytes"] >= top[1]["pushed_bytes"] > 0
assert top[0]["pushes_per_second"] is None and top[0]["age"] >= 0 and "report" not in d["shards"][0]
EOF
ok $? "and as JSON those that a pattern names, by what was pushed"

psctl jobs
[ "$status" -eq 0 ] && has '^digits all 2 0 0 2 [1-9][0-9]* [1-9][0-9]* 4 0 async.* 2 workers' && has '^1 2 0 0 2 '
ok $? "jobs shows workers and clocks, and how they keep step"

# ---- changing it ----

psctl set learning_rate=0.25 schedule=exponential:steps=100,factor=0.5 age=cutoff:8
is "0 job \"digits\": learning_rate=0.25, schedule=exponential:steps=100,factor=0.5, age=cutoff:8; 4 variables named by \"*\"; 2 shards" \
  "$status $(cat "$work/out")" "set says what changed on how many variables and shards"
psctl set age=cutoff:8 --json
python3 -c 'import json, sys; assert json.load(open(sys.argv[1])) == {"command": "set", "job": "digits",
    "changes": ["age=cutoff:8"], "pattern": None, "variables": 0, "shards": 2}' "$work/out"
ok $? "and as JSON"
psctl set bound=4 --json
[ "$status" -eq 3 ] && says err 'not ssp' &&
  python3 -c 'import json, sys; e = json.load(open(sys.argv[1])); assert e["command"] == "set" and e["error"]["code"] == "INVALID"' "$work/out"
ok $? "as one that fails is, beside the sentence"
psctl jobs
has '^digits all .* age cutoff(8)' || has '^digits all .* age cutoff\(8\)'
ok $? "jobs shows the new age policy"
psctl set --variables '*bias' clip=block_norm:2
[ "$status" -eq 0 ] && says out '; 2 variables named by "\*bias"; 2 shards$' && psctl variables &&
  has '^digits dense0/bias .*schedule=exponential.*clip=block_norm,limit=2' && ! has '^digits dense0/weights .*clip='
ok $? "a pattern names variables, and variables shows what they have now"

psctl variables
has '^digits dense0/bias .* 0\.2[0-9-]+[^ ]* adam:learning_rate=0.25,schedule=exponential,steps=100,factor=0.5,begin=[1-9][0-9]*,'
ok $? "a schedule that is set begins where the variables are, and not at version 0"
psctl set schedule=linear:steps=20,warmup=5
[ "$status" -eq 0 ] && [ ! -s "$work/err" ] && psctl variables && has '^digits dense0/bias .* 0\.05 adam:.*schedule=linear,warmup=5,steps=20,begin='
ok $? "also one whose steps the job has behind it: its rate is that of its beginning"

# refused STATUS SENTENCE TEXT ARGS...: psctl set is refused with the status and the text, and changes nothing.
refused() {
  local wanted=$1 sentence=$2 text=$3
  shift 3
  psctl variables --json
  grep -E '"(optimizer|learning_rate)":' "$work/out" >"$work/before"
  psctl set "$@"
  [ "$status" -eq "$wanted" ] && says err "$text"
  local result=$?
  cp "$work/err" "$work/said"
  psctl variables --json
  grep -E '"(optimizer|learning_rate)":' "$work/out" | cmp -s - "$work/before" || result=1
  cp "$work/said" "$work/err"
  ok "$result" "$sentence"
}
refused 3 "a value out of its range is refused by the cluster" 'learning_rate' learning_rate=-1
refused 3 "a parameter that the optimizer does not have" 'momentum' momentum=0.5
refused 3 "a schedule that is over, which would make the rate 0" 'the schedule makes its learning rate 0: begin=now lets' \
  schedule=linear:steps=20,begin=0
refused 3 "a weight decay that takes weights past 0" 'a weight_decay of 25 takes' schedule=constant weight_decay=25
refused 3 "a bound for a job that is not ssp" 'not ssp' bound=4
refused 3 "a job that is not there" "nobody" --job nobody learning_rate=1
refused 3 "a pattern that names nothing" "x\*" --variables 'x*' learning_rate=1
refused 3 "with the variable that was meant" "; did you mean dense0/bias?" --variables dense0/bais learning_rate=1
refused 2 "a name that is not known is wrong usage" "unknown name 'speed'" speed=1
refused 2 "and nothing to change" "expected what to change"

# on EPOCHS: the two workers of the first run go on until so many epochs have been done; worker 0's output goes to
# $work/out.
on() {
  local task pids=()
  for task in 0 1; do
    PSD_TEST_MARK=$mark PSD_CLUSTER=local PSD_WORKERS=2 PSD_TASK=$task "$DIGITS" --epochs "$1" --data "$data" --svg '' \
      >"$work/worker$task" 2>&1 </dev/null &
    pids+=($!)
  done
  wait "${pids[0]}" && wait "${pids[1]}" && cp "$work/worker0" "$work/out"
}
accuracy() { sed -n 's/.*held-out accuracy  *//p' "$work/out"; }

psctl set --force schedule=linear:steps=20,begin=0
[ "$status" -eq 0 ] && psctl variables && has '^digits dense0/bias .* 0 adam:.*schedule=linear,steps=20'
ok $? "--force sets it all the same"
refused 3 "a learning rate below a schedule that is over has no effect" 'makes its learning rate 0' learning_rate=0.5
psctl set learning_rate=0 schedule=constant age=none
is 0 "$status" "the learning rate is set to 0"
says err '^psctl: learning_rate=0: these variables stand still'
ok $? "and psctl says what that means"
on 4
frozen=$(accuracy)
on 6
again=$(accuracy)
[ -n "$frozen" ] && [ "$frozen" = "$again" ] && psctl variables --json &&
  [ "$(member pushed_bytes | total)" -ge $((weights * 2)) ]
ok $? "then workers push, and the weights stay as they are ($frozen, $again)"
psctl set learning_rate=0.01
on 10
[ "$frozen" != "$(accuracy)" ]
ok $? "until the rate is set again ($(accuracy))"

PSD_TEST_MARK=$mark PSD_CLUSTER=local "$DIGITS" --job other --epochs 1 --data "$data" --svg '' >"$work/out" 2>&1 </dev/null
psctl set learning_rate=0.01
[ "$status" -eq 2 ] && says err "several jobs; choose one with --job: digits, other$"
ok $? "where there are several jobs, one must be chosen"
psctl set --job other learning_rate=0.01
is "0 job \"other\": learning_rate=0.01; 4 variables named by \"*\"; 2 shards" "$status $(cat "$work/out")" "and then is"

# ---- who waits for whom ----

# Worker 1 never joins, so worker 0 waits for it in its first step.
PSD_TEST_MARK=$mark "$PSRUN" --shards 1 --workers 2 -- sh -c \
  'if [ "$PSD_TASK" = 0 ]; then exec "$@"; fi; echo "shards=$PSD_SHARDS"; exec sleep 1000' - \
  "$DIGITS" --strategy sync --data "$data" --svg '' >"$work/run" 2>&1 </dev/null &
psrun=$!
shards() { grep -q 'shards=' "$work/run"; }
within shards
other=$(sed -n 's/.*shards=//p' "$work/run")
waits() {
  psctl --shards "$other" blocked
  has '^digits 0 [a-z].* worker 1 '
}
within waits
ok $? "blocked names the waiting worker, what it waits in and for whom"
psctl --shards "$other" blocked --json
python3 -m json.tool "$work/out" >/dev/null && [ "$(member task | sort -u)" = 0 ] && [ -n "$(member waited_ms)" ]
ok $? "and as JSON"
psctl --shards "$other" evict 5
[ "$status" -eq 3 ] && says err '^psctl: job "digits" has no worker 5'
ok $? "a worker that is not there cannot be evicted"
psctl --shards "$other" evict 0 --json
[ "$status" -eq 0 ] && python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
e = d["shards"][0]["evicted"]
assert d["command"] == "evict" and d["job"] == "digits" and d["worker"] == 0 and d["not_reached"] == 0
assert e["found"] and e["live"] and e["clock"] <= 1 and ":" in e["agent"]' "$work/out"
ok $? "evict ends its session, and says who it was"
told() { grep -q 'FENCED: worker 0 of job .digits. .* was evicted' "$work/run"; }
within told
ok $? "the worker is told"
kill -TERM "$psrun" 2>/dev/null # it may have ended by itself, as its worker has
wait "$psrun"

# ---- shards that are not there ----

kill_shard=$(echo "$stop" | awk '{ print $3 + 0 }')
[ "$kill_shard" -gt 1 ] || done_testing # 0 would be this process group
kill -KILL "$kill_shard"
gone() { ! kill -0 "$kill_shard" 2>/dev/null; }
within gone
psctl --timeout 20s status
[ "$status" -eq 1 ] && has "^0 ${PSD_SHARDS%,*} serving " && has "^1 ${PSD_SHARDS#*,} not reached$" &&
  says out "^not reached: shard 1 at ${PSD_SHARDS#*,}: cannot connect: "
ok $? "a shard that is gone is listed with the reason, and the status is 1"
psctl --timeout 20s status --json
[ "$status" -eq 1 ] && python3 -m json.tool "$work/out" >/dev/null && has '"not_reached": 1' && has '"code": "[A-Z]+"'
ok $? "and as JSON"
psctl --shards "${PSD_SHARDS%,*}" ping --count 1
is 0 "$status" "--shards is asked instead of PSD_SHARDS"
eval "${stop/ $kill_shard/}"
within none_marked
ok $? "the shards are stopped as psrun said"

# ---- again and again ----

# serve NAME: a shard of its own at $work/NAME.sock, its process in $shard.
serve() {
  PSD_TEST_MARK=$mark "$PSD_BIN" --listen none --unix "$work/$1.sock" --live-dir "$work/$1" --memory 64MiB \
    >"$work/$1.log" 2>&1 </dev/null &
  shard=$!
  within answers "$1"
}
answers() { "$PSCTL" --shards "unix:$work/$1.sock" ping --count 1 >/dev/null 2>&1; }
alone="unix:$work/alone.sock"
serve alone

psctl status --check --shards "$alone"
is "0 1 shard is well" "$status $(cat "$work/out")" "--check finds a shard well"
psctl status --color always --shards "$alone"
[ "$status" -eq 0 ] && grep -q "$(printf '^\033\\[1mSHARD\033\\[0m')" "$work/out"
ok $? "--color always colours a pipe"
psctl status --shards "$alone"
! grep -q "$(printf '\033')" "$work/out"
ok $? "which has no colours of itself"

# blocks PATTERN N: the pattern is in at least so many blocks of the watched output.
blocks() { [ "$(grep -cE -- "$1" "$work/watched")" -ge "$2" ]; }

: >"$work/watched"
"$PSCTL" status --watch 0.1 --timeout 2s --shards "$alone" >>"$work/watched" 2>"$work/err" </dev/null &
watching=$!
within blocks '^ +0  unix:.* serving ' 2
kill -KILL "$shard"
wait "$shard" 2>/dev/null
within blocks '^ +0  unix:.* not reached$' 2
ok $? "a shard that goes away while it is watched is shown so"
: >"$work/watched"
serve alone
within blocks '^ +0  unix:.* serving ' 2
ok $? "and is shown again when it is back"
kill -TERM "$watching"
wait "$watching"
is 0 $? "TERM ends a watch as it was meant to end"
times=$(grep -cE '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$' "$work/watched")
[ "$times" -ge 2 ] && [ "$(grep -B1 -E '^[0-9]{4}-' "$work/watched" | grep -c '^$')" -ge $((times - 1)) ] &&
  ! grep -q "$(printf '\033')" "$work/watched"
ok $? "a watch in a pipe is plain blocks, each below its time, an empty line between them"

"$PSCTL" ping --json --watch=0.1 --count 1 --shards "$alone" >"$work/watched" 2>"$work/err" </dev/null &
watching=$!
within blocks '^  "command": "ping"' 3
kill -TERM "$watching"
wait "$watching"
is 0 $? "--json can be watched"
python3 -c 'import json, sys
text, n = sys.stdin.read().strip(), 0
while text:
    document, end = json.JSONDecoder().raw_decode(text)
    text, n = text[end:].strip(), n + 1
sys.exit(n < 3)' <"$work/watched"
ok $? "as one document after the other"

"$PSCTL" status --shards "$alone" >/dev/full 2>"$work/err"
[ $? -eq 1 ] && grep -q '^psctl: cannot write to standard output: No space left' "$work/err"
ok $? "an answer that could not be printed is no success"

"$PSCTL" status --watch=0.1 --json --shards "$alone" 2>"$work/err" | head -n 1 >"$work/out"
[ "${PIPESTATUS[0]}" -eq $((128 + 13)) ] && [ -s "$work/out" ] && [ ! -s "$work/err" ]
ok $? "but when its reader has gone it ends as others do then, without a word"

psctl top --interval 0.2 --shards "$alone"
[ "$status" -eq 0 ] && [ "$(grep -c '^cluster "psd": 1 of 1 shard up' "$work/out")" -eq 1 ] && has '^0 pushes/s, 0 B/s pushed' &&
  has '^0 serving -+ 0 % 0 0 B/s 0 B/s 0 B '
ok $? "top without a terminal is one page, with rates"

"$PSCTL" top --json --interval 0.1 --shards "$alone" >"$work/watched" 2>"$work/err" </dev/null &
watching=$!
within blocks '^  "command": "top"' 2
kill -TERM "$watching"
wait "$watching"
is 0 $? "top --json goes on until TERM"
python3 -c 'import json, sys
d, end = json.JSONDecoder().raw_decode(sys.stdin.read())
s = d["shards"][0]
assert d["not_reached"] == 0 and s["report"]["status"]["shards"] == 1 and s["report"]["stats"]["turns"] > 0
assert s["per_second"]["pushes_applied"] == 0 and s["per_second"]["turns"] > 0' <"$work/watched"
ok $? "a document each time, with the rates between"

# on_terminal ARGS...: psctl on a terminal of 24 rows; keys go in through descriptor 9, its drawing to $work/screen.
on_terminal() {
  rm -f "$work/keys" "$work/screen"
  mkfifo "$work/keys"
  PSD_TEST_MARK=$mark TERM=xterm script -qefc "trap : QUIT; stty cols 60 rows 24; '$PSCTL' $*; code=\$?; stty -a | tr ';' '\n'; exit \$code" \
    "$work/screen" <"$work/keys" >/dev/null 2>&1 &
  terminal=$!
  exec 9>"$work/keys"
}
drawn() { [ -f "$work/screen" ] && [ "$(grep -c "$1" "$work/screen")" -ge "$2" ]; }
home=$(printf '\033\\[H')
# The last page is left, the cursor shown, and the terminal echoes again and reads lines.
restored() {
  grep -q "$(printf '\033\\[?25h\033\\[?1049l')" "$work/screen" && grep -qE '(^| )icanon' "$work/screen" &&
    grep -qE '(^| )echo( |$)' <(tr -d '\r' <"$work/screen")
}

if command -v script >/dev/null && command -v stty >/dev/null; then
  declare -A called=([q]=q ['\003']=Ctrl-C ['\034']="Ctrl-\\")
  for keys in 'q:status --watch 0.1' '\003:status --watch=0.1' 'q:top --interval 0.1' '\003:top --interval 0.1' '\034:top --interval 0.1'; do
    on_terminal "${keys#*:} --shards $alone"
    within drawn "$home" 3
    printf '%b' "${keys%%:*}" >&9
    exec 9>&-
    wait "$terminal" && restored
    ok $? "${keys#*:} on a terminal is drawn in place until ${called[${keys%%:*}]}"
  done
  on_terminal "status --watch 5m --shards $alone"
  within drawn "q ends it" 1 # not before there is a page to draw again
  before=$(grep -c "q ends it" "$work/screen")
  for pid in $(marked); do
    [ "$(cat "/proc/$pid/comm")" = psctl ] && kill -WINCH "$pid"
  done
  within drawn "q ends it" $((before + 1))
  ok $? "it is drawn again when the window changes"
  printf q >&9
  exec 9>&-
  wait "$terminal"
else
  skip "psctl on a terminal" "script is not installed"
fi

# ---- draining ----

# took COMMAND...: how long it takes, in milliseconds, to $took.
took() {
  local start
  start=$(date +%s%N)
  "$@"
  took=$((($(date +%s%N) - start) / 1000000))
}

psctl drain --shard 0 --shards "$alone"
is "0 shard 0 at $alone: drained" "$status $(cat "$work/out")" "drain says when the shard has closed"
wait "$shard"
is 0 $? "which has ended as TERM ends it"
serve alone
psctl drain --shard 0 --json --shards "$alone"
[ "$status" -eq 0 ] && python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["command"] == "drain" and d["not_reached"] == 0 and d["shards"][0]["reached"]' "$work/out"
ok $? "drain says so as JSON"
wait "$shard"
serve alone
psctl save --json --shards "$alone"
[ "$status" -eq 3 ] && python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["command"] == "save" and d["shards"][0]["error"]["code"] == "UNSUPPORTED"' "$work/out"
ok $? "and save, where there is no disk to save to"
psctl drain --all --shards "$alone,unix:$work/none.sock"
[ "$status" -eq 1 ] && says out "^shard 0 at $alone: drained$" && says out "^shard 1 at unix:$work/none.sock: .*connect"
ok $? "drain --all drains those that it reaches and names those that it does not"
wait "$shard"
serve alone
kill -STOP "$shard"
took psctl drain --shard 0 --timeout 300 --shards "$alone"
[ "$status" -eq 1 ] && [ "$took" -ge 300 ] && [ "$took" -lt 20000 ]
ok $? "a shard that does not answer is waited for as long as --timeout says ($took ms)"
if command -v script >/dev/null && command -v stty >/dev/null; then
  on_terminal "top --timeout 5m --shards $alone"
  within drawn "$(printf '\033\\[?1049h')" 1
  printf q >&9
  exec 9>&-
  took wait "$terminal"
  [ "$took" -lt 60000 ] && restored
  ok $? "nor does it hold up who quits ($took ms)"
else
  skip "a hanging shard on a terminal" "script is not installed"
fi
kill -CONT "$shard"

kill -KILL "$shard"
wait "$shard" 2>/dev/null
took psctl status --check --timeout 5m --shards "$alone"
[ "$status" -eq 1 ] && says out '^shard 0 at unix:.*: not reached: ' && [ "$took" -lt 60000 ]
ok $? "a dead shard is told at once ($took ms)"
psctl set bound=1 --shards "$alone"
[ "$status" -eq 1 ] && says err "^psctl: shard 0 at $alone: cannot connect: "
ok $? "also by set"
psctl jobs --job nobody --shards "127.0.0.1:1"
[ "$status" -eq 1 ]
ok $? "and a port that nobody listens on"

# ---- waiting for shards that start ----

"$PSCTL" wait --shards "$alone" >"$work/out" 2>"$work/err" </dev/null &
waiting=$!
within says err "^psctl: waiting for shard 0 at $alone: cannot connect: "
ok $? "wait says which shard it waits for, and why"
serve alone
wait "$waiting"
is "0 1 shard answers" "$? $(cat "$work/out")" "and returns when that answers"
psctl wait --timeout 24h --shards "unix:$work/none.sock,$alone"
[ "$status" -eq 3 ] && says err "^psctl: shard 1 at $alone: it says that it is shard 0 of 1, but is listed as shard 1 of 2$" &&
  ! says err 'does not answer'
ok $? "a shard that is another one ends it at once, whatever others do"
PSD_CLUSTER=elsewhere psctl wait --shards "$alone"
[ "$status" -eq 3 ] && says err "^psctl: shard 0 at $alone: it belongs to cluster \"psd\", PSD_CLUSTER names \"elsewhere\"$"
ok $? "as does one of another cluster"
psctl wait --timeout 300ms --shards "unix:$work/none.sock"
[ "$status" -eq 1 ] && says err "^psctl: shard 0 at unix:.*none.sock does not answer after 300ms (--timeout): cannot connect: " &&
  [ ! -s "$work/out" ]
ok $? "after --timeout it ends with a sentence for the shard that is missing"
kill -STOP "$shard"
psctl wait --timeout 300 --shards "$alone"
[ "$status" -eq 1 ] && says err "^psctl: shard 0 at $alone does not answer after 300ms"
ok $? "or that stands still"
kill -KILL "$shard"
wait "$shard" 2>/dev/null

PSD_TEST_MARK=$mark "$PSD_BIN" --listen 127.0.0.1:0 --live-dir "$work/other" --memory 64MiB --ready-file "$work/ready" \
  >"$work/other.log" 2>&1 </dev/null &
shard=$!
within test -s "$work/ready"
PSD_TOKEN=test:fedcba9876543210 psctl wait --timeout 24h --shards "$(cat "$work/ready"),unix:$work/none.sock"
[ "$status" -eq 3 ] && says err "^psctl: shard 0 at $(cat "$work/ready"): token 'test' is not accepted" && ! says err 'does not answer'
ok $? "a shard that denies it ends the wait at once, whatever others do"
kill -KILL "$shard"
wait "$shard" 2>/dev/null

# ---- usage ----

# usage SENTENCE TEXT ARGS...: refused with status 2 and the text.
usage() {
  local sentence=$1 text=$2
  shift 2
  psctl "$@"
  [ "$status" -eq 2 ] && says err "$text"
  ok $? "$sentence"
}

usage "no question is refused" "expected a command: status, jobs"
usage "an unknown question is refused, and the one that was meant named" "unknown command 'statos'.*; did you mean status?" statos
usage "so is an option" "unknown option '--shads'.*; did you mean --shards?" status --shads 127.0.0.1:1
usage "and a setting, before a shard is asked" "unknown name 'lerning_rate'.*; did you mean learning_rate?" set lerning_rate=1
usage "two questions are refused" "unexpected 'stats'" status stats
usage "a bad address is refused with its place" 'shards\[1\]' status --shards 127.0.0.1:1,nonsense
usage "an option that the question does not take is refused" "--count is not for status" status --count 3
usage "a time that is no number is refused" "--timeout" status --timeout soon
usage "so is one that was meant in seconds" \
  "--timeout: expected a time from 100ms to 1d, got '5', which without a unit is milliseconds (units: ms, s" status --timeout 5
usage "nothing is measured in no time" "--seconds: expected a time from 1ms to 1d, got '0'" bench --seconds 0
usage "and nothing ends in none" "--seconds: expected a time from 1ms" trace --seconds 0
usage "--check goes alone" "--check goes with neither" status --check --json
usage "a watch that is no time is refused" "--watch" status --watch=soon
usage "evict needs a worker" "expected one worker's number" evict
usage "which is a number" "expected one worker's number" evict 1x
usage "drop needs a job" "expected --job NAME" drop --yes
usage "drain needs a choice" "expected either --shard N or --all" drain
usage "and not both" "expected either --shard N or --all" drain --shard 0 --all
usage "a shard that is not in the list is refused" "shards are 0 to 1" drain --shard 2
unset PSD_SHARDS
usage "an environment without a cluster is refused" "neither --shards nor TF_CONFIG nor PSD_SHARDS says where the shards are" status
PSD_TEST_MARK=$mark "$PSD_BIN" --live-dir "$work/usual" --memory 64MiB >"$work/usual.log" 2>&1 </dev/null &
usual=$!
psctl wait --timeout 1m
is 0 "$status" "psctl waits for the shard of a psd without options"
psctl status
[ "$status" -eq 0 ] && has '^0 127.0.0.1:7420 serving '
ok $? "where psd listens by itself psctl looks by itself"
kill "$usual"
wait "$usual"
export TF_CONFIG='{"cluster": '
usage "a TF_CONFIG that is no JSON is refused with its place" "TF_CONFIG:1:" status
unset TF_CONFIG
psctl --help
[ "$status" -eq 0 ] && says out 'blocked' && says out '--timeout TIME'
ok $? "--help lists questions and options"
psctl set --help && mv "$work/out" "$work/help"
psctl help set
[ "$status" -eq 0 ] && cmp -s "$work/out" "$work/help" && says out '^usage: psctl set '
ok $? "help and a command is its --help"

done_testing
