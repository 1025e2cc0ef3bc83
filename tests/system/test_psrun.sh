#!/usr/bin/env bash
# psrun with real shards: statuses, teardown, and that nothing is ever left behind. Prints TAP; tap.sh says which
# executables are used.
#
# The workers' own variables are for their shells (SC2016); helpers are called by name (SC2317).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# Run psrun to its end; its status is in $status.
run() {
  PSD_TEST_MARK=$mark "$PSRUN" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

# Start psrun in the background; its pid is in $psrun.
start() {
  rm -f "$work/out" "$work/err"
  PSD_TEST_MARK=$mark "$PSRUN" "$@" >"$work/out" 2>"$work/err" </dev/null &
  psrun=$!
}

finish() {
  wait "$psrun"
  status=$?
}

# The first pid that psrun printed in a shard's or worker's line "pid=N".
pid_of() { sed -n "s/^$1 *| pid=\\([0-9]*\\)\$/\\1/p" "$work/out" | head -n 1; }

# ---- a run that ends well ----

run --shards 2 --workers 3 -- sh -c 'echo "task=$PSD_TASK of $PSD_WORKERS"; echo "config=$TF_CONFIG"; echo oops >&2'
is 0 "$status" "workers that end well give status 0"
says out '^worker 2 | task=2 of 3$' && says err '^worker 0 | oops$'
ok $? "each line stands behind its process's name, on its own stream"
is 3 "$(grep -o '"ps":\[[^]]*\],\|"ps":\[[^]]*\]' "$work/out" | grep -c '127.0.0.1:[0-9]*","127.0.0.1:[0-9]*"')" \
  "TF_CONFIG names both shards to every worker"
is 3 "$(grep -o '"task":{"type":"worker","index":[0-9]}' "$work/out" | sort -u | wc -l)" \
  "each worker has an index of its own"
is 3 "$(sed -n 's/.*"worker":\[\([^]]*\)\].*/\1/p' "$work/out" | head -n 1 | tr ',' '\n' | sort -u | wc -l)" \
  "each worker has an address of its own"
none_marked
ok $? "nothing is left when it has ended"

run --workers 2 --unix --no-prefix --env 'GREETING=a=b c' --cpus-per-worker 3 -- \
  sh -c 'echo "$GREETING $OPENBLAS_NUM_THREADS $PSD_SHARDS"'
says out '^a=b c 3 unix:/.*/psd.sock$'
ok $? "--unix, --no-prefix, --env and --cpus-per-worker reach the workers"
is 0 "$status" "and they end well"
none_marked && [ -z "$(sed -n 's/.*unix:\(.*\)\/shard-0.*/\1/p' "$work/out" | xargs -r -n 1 ls -d 2>/dev/null)" ]
ok $? "the run's directory is removed"

# Two workers write the halves of lines in turns: the lines must come out whole.
run --workers 2 -- sh -c 'i=0; while [ $i -lt 50 ]; do printf "%s" left-; printf "right\n"; i=$((i + 1)); done'
is 100 "$(grep -c '^worker [01] | left-right$' "$work/out")" "lines of several processes never mix"

# What psrun opens must not become a standard stream.
(exec <&- >&- 2>&- && PSD_TEST_MARK=$mark exec "$PSRUN" -- sh -c "echo \"\$PSD_TASK\" >'$work/closed'")
is "0 0" "$? $(cat "$work/closed")" "standard streams that are closed are no harm"
run --chdir /no/such/dir -- true
[ "$status" -eq 1 ] && says err '^psrun: /no/such/dir cannot be the workers. directory: No such file'
ok $? "a directory that is not there is named"
mkdir "$work/gone"
(cd "$work/gone" && rmdir "$work/gone" && run -- true && exit "$status")
[ $? -eq 1 ] && says err '^psrun: this directory cannot be the workers. directory: No such file.*--chdir'
ok $? "and so is one that was removed"

run --workers 1 -- sh -c 'printf "no end"'
says out '^worker 0 | no end$'
ok $? "a last line without its end is printed"

run --workers 1 -- sh -c 'printf "1%%\r2%%\r3%%\ndone\r\n"'
is "worker 0 | 3%|worker 0 | done|" "$(tr '\n' '|' <"$work/out")" "a redrawn line is printed once when it goes to a file"

if command -v script >/dev/null; then
  PSD_TEST_MARK=$mark TERM=xterm script -qec \
    "'$PSRUN' --workers 1 -- sh -c 'printf \"1%%\\r\"; printf \"2%%\\n\"'" /dev/null >"$work/out" 2>"$work/err" </dev/null
  tr '\r' '\n' <"$work/out" | grep -q '2%' && grep -q "$(printf '\033\[36mworker 0')" "$work/out"
  ok $? "on a terminal a redrawn line is drawn and tags have colours"
else
  skip "on a terminal a redrawn line is drawn and tags have colours" "no script(1) here"
fi

# ---- failures ----

run --shards 2 --workers 3 -- sh -c 'if [ "$PSD_TASK" = 1 ]; then exit 7; fi; exec sleep 1000'
is 7 "$status" "a failing worker's status is psrun's"
says err 'worker 1 (pid [0-9]*) exited with status 7'
ok $? "and it is said which worker it was and why"
tail -n 1 "$work/err" | grep -q '^psrun    | the run failed: worker 1 (pid [0-9]*) exited with status 7'
ok $? "in the last line, after what the shards print as they stop"
none_marked
ok $? "and the others are torn down"

run --workers 2 -- sh -c 'if [ "$PSD_TASK" = 1 ]; then kill -SEGV $$; fi; exec sleep 1000'
is 139 "$status" "a worker killed by signal 11 gives 128 + 11"
says err 'worker 1 (pid [0-9]*) was killed by signal 11 (SEGV'
ok $? "and the signal is named"

start --shards 2 --workers 2 -- sh -c 'echo "pid=$$"; exec sleep 1000'
within says out '^worker 1 | pid='
shard=$(for pid in $(marked); do
  case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in
    *@keep*) ;;
    *' --shard=1 '*) echo "$pid" ;;
  esac
done)
kill -KILL "$shard"
finish
is 137 "$status" "a shard that is killed ends the run with 128 + 9"
says err "shard 1 (pid $shard) was killed by signal 9 (KILL"
ok $? "and it is said which shard it was"
none_marked
ok $? "and everything is torn down"

run --workers 1 -- ./no-such-program
is 127 "$status" "a program that is not there gives 127"
says err '^psrun: worker 0 could not be started: ./no-such-program: No such file' && [ "$(wc -l <"$work/err")" -eq 1 ]
ok $? "and it is named in one line, before a shard is started"
name=trainer
printf '#!/bin/sh\n' >"$work/trainer"
run --chdir "$work" -- "$name"
[ "$status" -eq 127 ] && says err 'trainer: No such file or directory; trainer in the workers. directory is no program$'
ok $? "so is one in the workers' directory that cannot be executed"
chmod +x "$work/trainer"
run --chdir "$work" -- "$name"
[ "$status" -eq 127 ] && says err 'trainer: No such file or directory; did you mean ./trainer?'
ok $? "and one that is not in PATH"
run --chdir "$work" --env "PATH=$work:$PATH" -- "$name"
is 0 "$status" "unless the workers' PATH leads to it"

printf '#!/bin/sh\necho "level=error no room" >&2\nexit 5\n' >"$work/broken"
chmod +x "$work/broken"
run --psd "$work/broken" --shards 2 -- true
is 5 "$status" "a shard that cannot start ends the run with its status"
says err '^shard [01]  | level=error no room$' && says err 'shard [01] never listened'
ok $? "and what it said is shown"
none_marked
ok $? "and nothing is left"

run --psd "$work/missing" -- true
[ "$status" -eq 1 ] && [ "$(cat "$work/err")" = "psrun: --psd $work/missing: No such file or directory" ]
ok $? "a server that is not there is said in one line"
run --psd "$work" -- true
[ "$status" -eq 1 ] && [ "$(cat "$work/err")" = "psrun: --psd $work: Permission denied; it is a directory, or needs chmod +x" ]
ok $? "and one that is no program"
run --psd psd-that-is-not-there -- true
[ "$(cat "$work/err")" = "psrun: --psd psd-that-is-not-there: there is no such program in PATH" ]
ok $? "and one that is not in PATH"
PSD_BIN=$work/missing run -- true
[ "$status" -eq 1 ] && [ "$(cat "$work/err")" = "psrun: PSD_BIN $work/missing: No such file or directory" ]
ok $? "and one that the environment names, with the variable"
PSD_BIN='' PSRUN_BIN=x PATH=$work "$PSRUN" --cluster lone --version >"$work/out" && cp "$PSRUN" "$work/psrun-alone" &&
  PSD_BIN='' PATH=$work:/nowhere "$work/psrun-alone" -- true 2>"$work/err"
[ "$(wc -l <"$work/err")" -eq 1 ] && says err "Looked for: .*$work/psd, /nowhere/psd"
ok $? "without either the places that were looked at are in one line"

# ---- signals ----

# Under nohup a hang-up is ignored, by psrun as well; the last bit says so.
ignored=$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status)
signals='INT TERM HUP'
case $ignored in
*[13579bdf])
  skip "SIGHUP stops all and gives 129" "it is ignored here, as under nohup"
  signals='INT TERM'
  ;;
esac
for name in $signals; do
  start --shards 2 --workers 2 -- sh -c 'echo "pid=$$"; exec sleep 1000'
  within says out '^worker 1 | pid='
  within says out '^worker 0 | pid='
  kill -"$name" "$psrun"
  finish
  is "$((128 + $(kill -l "$name")))" "$status" "SIG$name stops all and gives 128 + its number"
  none_marked
  ok $? "and nothing is left after it"
done

start --grace 0.2 --workers 1 -- sh -c 'trap "" TERM; echo "pid=$$"; while :; do sleep 1000; done'
within says out '^worker 0 | pid='
kill -INT "$psrun"
finish
[ "$status" -eq 130 ] && says err 'worker 0 did not stop within 0.2 s: killed' && none_marked
ok $? "a worker that does not stop is killed after the grace"

start --grace 3000 --workers 1 -- sh -c 'trap "" TERM; echo "pid=$$"; while :; do sleep 1000; done'
within says out '^worker 0 | pid='
kill -INT "$psrun"
within says err 'stopping all on INT'
kill -INT "$psrun"
finish
[ "$status" -eq 130 ] && none_marked
ok $? "a second Ctrl-C kills at once"

# The worker's own child starts a new session and ignores all signals that it can; psrun itself is killed.
start --shards 2 --workers 2 -- sh -c 'trap "" TERM HUP INT; setsid sleep 1000 & setsid setsid sleep 1000 & echo "pid=$$"; wait'
within says out '^worker 0 | pid='
within says out '^worker 1 | pid='
kill -KILL "$psrun"
finish
within none_marked
ok $? "kill -9 of psrun leaves no process, not even the workers' own daemons"

start --shards 1 --workers 1 -- sh -c 'echo "pid=$$ $PSD_SHARDS"; exec sleep 1000'
within says out '^worker 0 | pid='
dirs=$(for pid in $(marked); do tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null; done |
  sed -n 's/^--live-dir=\(.*\)\/shard-0\/live$/\1/p' | sort -u)
[ -n "$dirs" ] && [ -d "$dirs" ]
ok $? "the data is in a directory of the run"
kill -KILL "$psrun"
finish
no_dir() { ! [ -e "$dirs" ]; }
within no_dir
ok $? "which is gone after kill -9 of psrun, too"

# When the supervisor dies, so does the program.
start --workers 1 -- sh -c 'echo "pid=$$"; exec sleep 1000'
within says out '^worker 0 | pid='
supervisor=$(awk '{print $4}' "/proc/$(pid_of 'worker 0')/stat")
kill -KILL "$supervisor"
finish
[ "$status" -eq 137 ] && within none_marked
ok $? "kill -9 of a supervisor ends its program and the run"

run --workers 1 -- sh -c 'setsid sleep 1000 & exit 0'
[ "$status" -eq 0 ] && none_marked
ok $? "what a worker leaves running ends with it"

run --timeout 0.3 --workers 1 -- sleep 1000
[ "$status" -eq 124 ] && says err 'timeout' && none_marked
ok $? "--timeout tears all down and gives 124"
before=$SECONDS
{ PSD_TEST_MARK=$mark "$PSRUN" --timeout 0.5 -- sh -c 'yes | head -c 1000000; sleep 1000' 2>"$work/err" </dev/null
  echo "$?" >"$work/status"; } | until [ -s "$work/status" ] || [ $((SECONDS - before)) -gt "$WITHIN" ]; do sleep 0.05; done
is 124 "$(cat "$work/status")" "also when nobody reads what it prints"

PSD_TEST_MARK=$mark "$PSRUN" --workers 1 -- sh -c 'while echo y; do :; done' 2>"$work/err" </dev/null | head -n 1 >"$work/out"
status=${PIPESTATUS[0]}
[ "$status" -eq 141 ] && says out '^worker 0 | y$' && none_marked
ok $? "when nobody reads the output any more, all ends with 141"

# ---- restarts ----

run --workers 2 --restart-workers 2 -- sh -c \
  'if [ "$PSD_TASK" = 1 ] && ! mkdir "'"$work"'/once" 2>/dev/null; then echo again; exit 0; fi; [ "$PSD_TASK" = 0 ] || exit 3'
is 0 "$status" "--restart-workers starts a worker that failed again"
says out '^worker 1 | again$' && says err 'worker 1 is started again in 1.0 s; 1 restart left'
ok $? "and says so"
run --workers 1 --restart-workers 2 -- sh -c 'echo try; exit 3'
is "3 3" "$status $(grep -c try "$work/out")" "but not more often than it was told"

# ---- servers that stay ----

run --shards 2 --workers 1 --keep-servers -- sh -c 'echo "$PSD_SHARDS"'
is 0 "$status" "--keep-servers ends with the workers"
stop=$(sed -n 's/^psrun *|   \(kill .*\)/\1/p' "$work/err")
[ "$(marked | wc -l)" -eq 2 ] && says err "export PSD_SHARDS=$(sed -n 's/^worker 0 | //p' "$work/out")"
ok $? "and leaves the shards, and nothing else, and says how to reach them"
shards=$(sed -n 's/^worker 0 | //p' "$work/out")
token=$(sed -n 's/^psrun *|   export PSD_TOKEN_FILE=//p' "$work/err")
[ "$(stat -c %a "$token")" = 600 ] && grep -qE '^psrun:admin:[0-9a-f]{64}$' "$token"
ok $? "and leaves their token to nobody else"
PSD_BIN=/nowhere/psd run --ps "$shards" --workers 2 -- sh -c 'echo "$PSD_SHARDS $PSD_WORKERS $PSD_TASK ${TF_CONFIG%%]*}"'
ps="{\"cluster\":{\"ps\":[\"${shards/,/\",\"}\""
[ "$status" -eq 0 ] && grep -qF "worker 0 | $shards 2 0 $ps" "$work/out" && grep -qF "worker 1 | $shards 2 1 $ps" "$work/out" &&
  says err "2 shards at $shards, which run already; 2 workers, "
ok $? "--ps starts workers alone, and names them the shards"
run --ps "$shards" -- "$PSCTL" --timeout 30s status
[ "$status" -ne 0 ] && says out 'only peers that prove to have a token are let in'
ok $? "who has no token is not let in"
PSD_TOKEN_FILE=$token run --ps "$shards" -- "$PSCTL" --timeout 30s status
[ "$status" -eq 0 ] && says out '^worker 0 | cluster "local" of 2 shards'
ok $? "which they reach"
called() { run --ps "$shards" "$@" -- sh -c 'echo "cluster $PSD_CLUSTER"' && sed -n 's/^worker 0 | cluster //p' "$work/out"; }
is "psd lab here" "$(called) $(PSD_CLUSTER=lab called) $(PSD_CLUSTER=lab called --cluster here)" \
  "shards that run already are called as psd calls them, or the environment, or --cluster"
run --ps "$shards" -- sh -c 'exit 3'
is "3 2" "$status $(marked | wc -l)" "a worker's failure is told, and leaves the shards alone"
[ -n "$stop" ] && eval "$stop" && within none_marked && ! [ -e "${stop##* }" ]
ok $? "and how to stop them"

PSD_BIN=/nowhere/psd run --shards 0 --workers 2 -- sh -c 'echo "[$PSD_SHARDS] $PSD_WORKERS $PSD_TASK $TF_CONFIG"'
[ "$status" -eq 0 ] && says err "no shards; 2 workers, " && none_marked &&
  says out '^worker 1 | \[\] 2 1 {"cluster":{"worker":\["127.0.0.1:[0-9]*","127.0.0.1:[0-9]*"\]},"task":{"type":"worker","index":1}}$'
ok $? "--shards 0 starts workers alone, who know of each other"

start --workers 1 --keep-servers -- sh -c 'echo "pid=$$"; exec sleep 1000'
within says out '^worker 0 | pid='
kill -INT "$psrun"
finish
[ "$status" -eq 130 ] && none_marked
ok $? "Ctrl-C stops servers that were to stay"

run --workers 1 --live-dir "$work/live" -- true
[ "$status" -eq 0 ] && [ -d "$work/live/shard-0" ] && none_marked
ok $? "--live-dir keeps the data"

# ---- usage ----

# usage SENTENCE TEXT ARGS...: refused with status 2 and the text.
usage() {
  local sentence=$1 text=$2
  shift 2
  run "$@"
  [ "$status" -eq 2 ] && says err "$text"
  ok $? "$sentence"
}

usage "no program is refused" 'expected a program' --workers 2
usage "an unknown option is refused" "unknown option '--wrokers'" --wrokers 2 -- true
usage "a number out of range is refused" "--shards: expected a number from 0 to" --shards 257 -- true
usage "no shards have no options" "--live-dir is about shards, and with --shards 0 there are none" --shards 0 --live-dir x -- true
usage "what is no number is refused" "--workers: expected a whole number, got 'two'" --workers two -- true
usage "--ps leaves no shards to start" "--shards is about shards that psrun starts" --ps 127.0.0.1:1 --shards 2 -- true
usage "an option without its value is refused" "--workers: expected a value" --workers
usage "--env without = is refused" "--env: expected K=V" --env FOO -- true
run --help
[ "$status" -eq 0 ] && says out '--keep-servers' && says out '--restart-workers N'
ok $? "--help lists the options"

done_testing
