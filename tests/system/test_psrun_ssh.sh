#!/usr/bin/env bash
# psrun over several machines: everywhere through a stand-in for ssh that runs a shell with a cleared environment, and,
# where there is an sshd, through real connections over loopback to one that this test starts as an ordinary process.
# 127.0.0.2 and 127.0.0.3 are "other machines": they are not names of this one. Prints TAP; tap.sh says which executables
# are used.
#
# The workers' own variables are for their shells (SC2016); helpers are called by name (SC2317).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

PSRUN=$(realpath "$PSRUN")
PSD_BIN=$(realpath "$PSD_BIN")
DIGITS=$(realpath "$DIGITS")
data=$(realpath "${PSD_SOURCE_DIR:-$here/../..}")/client/examples/data/digits
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER

SSHD=/usr/sbin/sshd
undisturbed= # what a training without accidents learns
sshd=        # its pid
made_dir=    # what sshd requires and was not there
via=()       # options that lead to the other machines
way=         # how these machines are reached, for sentences

stop_sshd() {
  if [ -n "$sshd" ]; then
    kill -CONT "$sshd" 2>/dev/null
    kill -TERM "$sshd" 2>/dev/null
    wait "$sshd" 2>/dev/null
  fi
  if [ -n "$made_dir" ]; then
    rmdir "$made_dir" 2>/dev/null
  fi
}
trap 'stop_sshd; cleanup' EXIT

# run OPTIONS... -- PROGRAM: psrun on other machines to its end; its status is in $status.
run() {
  PSD_TEST_MARK=$mark "$PSRUN" "${via[@]}" --env "PSD_TEST_MARK=$mark" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

# The same in the background; its pid is in $psrun.
start() {
  rm -f "$work/out" "$work/err"
  PSD_TEST_MARK=$mark "$PSRUN" "${via[@]}" --env "PSD_TEST_MARK=$mark" "$@" >"$work/out" 2>"$work/err" </dev/null &
  psrun=$!
}

finish() {
  wait "$psrun"
  status=$?
}

hosts='127.0.0.2,127.0.0.3'
pid_of() { sed -n "s/^$1 *| pid=\\([0-9]*\\)\$/\\1/p" "$work/out" | head -n 1; }
gone() { ! kill -0 "$1" 2>/dev/null; }

# The pid of a shard: psd itself, not its supervisors.
shard_pid() {
  local pid
  for pid in $(marked); do
    if words "$pid" | grep -x -- "--shard=$1" >/dev/null && ! words "$pid" | grep -x '@keep' >/dev/null; then
      echo "$pid"
    fi
  done
}

# The directories of a run that is going on, on the other machines.
dirs_of() {
  local pid
  for pid in $(marked); do
    words "$pid" | sed -n 's/^--live-dir=\(.*\)\/shard-[0-9]*\/live$/\1/p'
  done | sort -u
}

# ---- for both ways ----

test_a_whole_run() {
  run --hosts "$hosts" --shards 2 --workers 3 -- sh -c 'echo "task=$PSD_TASK of $PSD_WORKERS in $PWD"; echo "$TF_CONFIG"; echo oops >&2'
  is 0 "$status" "$way: workers that end well give status 0"
  says out "^worker 2@127.0.0.2 | task=2 of 3 in $PWD\$" && says err '^worker 1@127.0.0.3 | oops$'
  ok $? "$way: each line stands behind its process and machine, on its own stream; the directory is the one here"
  is 3 "$(grep -c '"ps":\["127.0.0.2:[1-9][0-9]*","127.0.0.3:[1-9][0-9]*"\],"worker":\["127.0.0.2:2222","127.0.0.3:2222","127.0.0.2:2223"\]' "$work/out")" \
    "$way: TF_CONFIG has all addresses, the shards' real ports among them"
  none_marked
  ok $? "$way: nothing is left when it has ended"
}

# A machine's /home may be a link that another's is not: the directory goes by the name that it has here.
test_directory() {
  mkdir -p "$work/behind" && ln -sfn "$work/behind" "$work/linked"
  (cd "$work/linked" && run --hosts "$hosts" -- sh -c 'echo "in $PWD"')
  says out "| in $work/linked\$"
  ok $? "$way: a directory is named as the shell names it"
}

test_every_byte() {
  local nasty wanted i
  nasty=$'a \'b\' "c" $HOME `id` $(id) \\ \\\\ ! ~ * ? [x] {a,b} # & | ; < > (\n)\t=%\r'
  for i in 1 2 7 27 127 128 195 255; do
    # shellcheck disable=SC2059
    nasty+=$(printf "\\$(printf %o "$i")")
  done
  wanted=$(printf %s "$nasty" | od -An -tx1 | tr -d ' \n')
  run --hosts "$hosts" --workers 1 --env "NASTY=$nasty" --no-prefix -- \
    sh -c 'printf %s "$NASTY" | od -An -tx1 | tr -d " \n"; echo; printf %s "$1" | od -An -tx1 | tr -d " \n"; echo' "it's" "$nasty"
  is "$wanted $wanted" "$(tr '\n' ' ' <"$work/out" | sed 's/ $//')" "$way: an environment and arguments arrive byte for byte"
}

test_statuses() {
  run --hosts "$hosts" --workers 2 -- sh -c 'if [ "$PSD_TASK" = 1 ]; then exit 255; fi; exec sleep 1000'
  [ "$status" -eq 255 ] && says err 'worker 1@127.0.0.3 (pid [0-9]*) exited with status 255' && ! says err 'reached'
  ok $? "$way: a program's own 255 is not ssh's"
  within none_marked # one that was still being connected to ends when its login shell has read what it reads
  ok $? "$way: and the others are torn down"
  run --hosts "$hosts" --workers 2 -- sh -c 'if [ "$PSD_TASK" = 1 ]; then kill -SEGV $$; fi; exec sleep 1000'
  [ "$status" -eq 139 ] && says err 'worker 1@127.0.0.3 (pid [0-9]*) was killed by signal 11 (SEGV'
  ok $? "$way: a signal is known as what it is"
  run --hosts "$hosts" -- ./no-such-program
  [ "$status" -eq 127 ] && says err 'worker 0@127.0.0.2 could not be started: ./no-such-program: No such file'
  ok $? "$way: a program that is not there gives 127"
}

test_signals() {
  start --hosts "$hosts" --shards 2 --workers 2 -- sh -c 'trap "echo bye; exit 0" TERM; echo "pid=$$"; while :; do sleep 0.05; done'
  within says out '^worker 0@127.0.0.2 | pid='
  within says out '^worker 1@127.0.0.3 | pid='
  kill -INT "$psrun"
  finish
  [ "$status" -eq 130 ] && says out '^worker 0@127.0.0.2 | bye$' && says out '^worker 1@127.0.0.3 | bye$' &&
    says err 'shard 1@127.0.0.3 .*stopped'
  ok $? "$way: Ctrl-C asks those on other machines to stop, workers first"
  none_marked
  ok $? "$way: and nothing is left"
  start --hosts "$hosts" --grace 0.2 -- sh -c 'trap "" TERM; echo "pid=$$"; while :; do sleep 1000; done'
  within says out '^worker 0@127.0.0.2 | pid='
  kill -INT "$psrun"
  finish
  [ "$status" -eq 130 ] && says err 'worker 0@127.0.0.2 did not stop within 0.2 s: killed' && none_marked
  ok $? "$way: who does not stop is killed after the grace"
}

# The worker's own child starts a new session and ignores all signals that it can; psrun itself is killed.
test_psrun_killed() {
  local dirs
  start --hosts "$hosts" --shards 2 --workers 2 -- sh -c 'trap "" TERM HUP INT PIPE; setsid sleep 1000 & setsid setsid sleep 1000 & echo "pid=$$"; wait'
  within says out '^worker 0@127.0.0.2 | pid='
  within says out '^worker 1@127.0.0.3 | pid='
  dirs=$(dirs_of)
  [ -n "$dirs" ] && [ -d "$dirs/shard-0" ] && [ -d "$dirs/shard-1" ]
  ok $? "$way: the data is in a directory of the run"
  kill -KILL "$psrun"
  finish
  within none_marked
  ok $? "$way: kill -9 of psrun leaves no process anywhere"
  if [ "$way" = sshd ]; then
    [ -n "$dirs" ] && within test ! -e "$dirs"
    ok $? "$way: nor a directory"
  else # the supervisors here kill those there, who then cannot clean up
    rm -rf "$dirs"
  fi
}

# The agent of a worker, by the worker's pid: above its supervisor.
test_connection_lost() {
  local supervisor agent ssh
  start --hosts 127.0.0.2 -- sh -c 'echo "pid=$$"; exec sleep 1000'
  within says out '^worker 0@127.0.0.2 | pid='
  supervisor=$(awk '{print $4}' "/proc/$(pid_of 'worker 0@127.0.0.2')/stat")
  agent=$(awk '{print $4}' "/proc/$supervisor/stat")
  kill -KILL "$agent"
  finish
  [ "$status" -eq 1 ] && says err 'worker 0@127.0.0.2: the connection to host 127.0.0.2 was lost' && within none_marked
  ok $? "$way: an agent's death ends its program and the run"
}

test_supervisor_killed() {
  local dir shard
  start --hosts 127.0.0.2 -- sh -c 'echo "pid=$$"; exec sleep 1000'
  within says out '^worker 0@127.0.0.2 | pid='
  dir=$(dirs_of)
  shard=$(shard_pid 0)
  kill -KILL "$(awk '{print $4}' "/proc/$shard/stat")"
  finish
  [ "$status" -eq 137 ] && within none_marked && [ -n "$dir" ] && ! [ -e "$dir" ]
  ok $? "$way: a shard whose supervisor is killed is gone with it, and so is its directory"
}

test_ssh_killed() {
  local pid
  start --hosts 127.0.0.2 -- sh -c 'trap "" HUP PIPE; echo "pid=$$"; exec sleep 1000'
  within says out '^worker 0@127.0.0.2 | pid='
  for pid in $(marked); do
    if [ "$(words "$pid" | head -n 1)" = ssh ]; then
      kill -KILL "$pid"
    fi
  done
  finish
  [ "$status" -eq 1 ] && within none_marked
  ok $? "$way: the death of ssh ends all on the other machine"
}

# A psrun that does not run sends nothing, as one behind a network that was cut.
test_silence() {
  local worker
  start --hosts 127.0.0.2 --silence 1 -- sh -c 'echo "pid=$$"; exec sleep 1000'
  within says out '^worker 0@127.0.0.2 | pid='
  worker=$(pid_of 'worker 0@127.0.0.2')
  kill -STOP "$psrun"
  within gone "$worker"
  ok $? "$way: what hears nothing for --silence ends"
  kill -KILL "$psrun"
  finish
  within none_marked
  ok $? "$way: and all else with psrun"
}

# A run's result, to all its digits.
learnt() { sed -n 's/^worker 0@127.0.0.2 | \(epoch 300\/300 .*loss [0-9.]*  accuracy [0-9.]*%\).*/\1/p; s/^worker 0@127.0.0.2 | \(held-out accuracy .*\)/\1/p' "$work/out" | sed 's/ [0-9,]* examples\/s//'; }

# A shard that is killed in mid-training comes back with its data: the run's result is that of one without failures.
test_shard_again() {
  local training=("$DIGITS" --epochs 300 --strategy sync --seed 7 --data "$data" --svg '')
  if [ -z "$undisturbed" ]; then
    run --hosts "$hosts" --shards 2 --workers 2 --cpus-per-worker 1 -- "${training[@]}"
    undisturbed=$(learnt)
    [ "$status" -eq 0 ] && [ "$(wc -l <<<"$undisturbed")" -eq 2 ]
    ok $? "$way: a training ends well"
  fi
  start --hosts "$hosts" --shards 2 --workers 2 --cpus-per-worker 1 --restart-shards 2 --restart-delay 0.1 -- "${training[@]}"
  within says out '^worker 0@127.0.0.2 | epoch .* [1-9][0-9]%'
  kill -KILL "$(shard_pid 1)"
  finish
  [ "$status" -eq 0 ] && says err 'shard 1@127.0.0.3 (pid [0-9]*) was killed by signal 9' &&
    says err 'shard 1@127.0.0.3 is started again in 0.1 s; 1 restart left' && \
    says err '^shard 1@127.0.0.3 .* shard=1/2 .* data=kept '
  ok $? "$way: a shard that was killed is started again, on its data"
  is "$undisturbed" "$(learnt)" "$way: and the training ends as one without accidents"
  none_marked
  ok $? "$way: and nothing is left"
}

test_worker_again() {
  local pid
  start --hosts "$hosts" --shards 2 --workers 2 --restart-workers 1 --restart-delay 0.1 -- \
    "$DIGITS" --epochs 300 --strategy ssp --data "$data" --svg ''
  within says out '^worker 0@127.0.0.2 | epoch .* [1-9][0-9]%'
  pid=$(sed -n 's/.*worker joined .* task=1 agent="[^"]*:\([0-9]*\)".*/\1/p' "$work/err" | head -n 1)
  kill -KILL "$pid"
  finish
  [ "$status" -eq 0 ] && says err "worker 1@127.0.0.3 (pid $pid) was killed by signal 9" &&
    says err 'worker 1@127.0.0.3 is started again in 0.1 s; 0 restarts left'
  ok $? "$way: a worker that was killed is started again, and the training ends well"
  none_marked
  ok $? "$way: and nothing is left"
}

test_refusals() {
  run --hosts "$hosts" --remote-psrun "/no such/psrun" -- true
  [ "$status" -eq 1 ] && says err 'shard 0@127.0.0.2: host 127.0.0.2 has no psrun that could be run.*/no such/psrun'
  ok $? "$way: a machine without psrun is named"
  run --hosts "$hosts" --remote-psd /no/psd -- true
  [ "$status" -eq 127 ] && says err 'shard 0@127.0.0.2 could not be started: /no/psd: No such file'
  ok $? "$way: a machine without psd is named"
  run --hosts "$hosts" --chdir /no/such/dir -- true
  [ "$status" -eq 1 ] && says err 'could not be started on host 127.0.0.2: the directory /no/such/dir cannot be entered there: No such file'
  ok $? "$way: a directory that is not there is named"
  within none_marked
  ok $? "$way: and nothing is left"
}

# ---- the stand-in ----

fake_bin=$work/bin
mkdir "$fake_bin"
ln -s "$PSRUN" "$fake_bin/psrun"
ln -s "$PSD_BIN" "$fake_bin/psd"
cat >"$work/fake-ssh" <<EOF
#!/bin/sh
for word; do printf '%s\n' "\$word"; done >>"$work/ssh-words"
for command; do :; done
exec env -i HOME="\$HOME" PATH="$fake_bin:/usr/bin:/bin" PSD_TEST_MARK="$mark" sh -c "\$command"
EOF
chmod +x "$work/fake-ssh"
via=(--ssh "'$work/fake-ssh'")
way='a stand-in for ssh'

test_a_whole_run
test_directory
test_every_byte
is 0 "$(grep -c 'NASTY\|TF_CONFIG\|PSD_' "$work/ssh-words")" "no environment is on a command line"
is "exec 'psrun' @remote" "$(sed -n '/^exec/p' "$work/ssh-words" | sort -u)" "the command is psrun and nothing else"
test_statuses
test_signals
test_psrun_killed
test_connection_lost
test_supervisor_killed
test_silence
test_shard_again
test_worker_again
test_refusals

# More than a pipe holds, and a reader that starts late.
{ PSD_TEST_MARK=$mark "$PSRUN" "${via[@]}" --env "PSD_TEST_MARK=$mark" --hosts 127.0.0.2 --silence 1 --no-prefix -- \
  seq 1 50000 2>"$work/err" </dev/null || echo failed; } | { sleep 3; cat; } >"$work/out"
is "$(seq 1 50000 | md5sum)" "$(md5sum <"$work/out")" "a reader who takes longer than --silence is waited for"

run --hosts 127.0.0.2 --no-prefix -- seq 1 200000
is "$(seq 1 200000 | md5sum)" "$(md5sum <"$work/out")" "a long output arrives whole"

printf '#!/bin/sh\necho "Welcome to this machine."; printf "no end"; exec "%s" "$@"\n' "$work/fake-ssh" >"$work/noisy-ssh"
chmod +x "$work/noisy-ssh"
via=(--ssh "'$work/noisy-ssh'")
run --hosts 127.0.0.2 -- echo hello
[ "$status" -eq 0 ] && says out '^worker 0@127.0.0.2 | Welcome to this machine.$' && says out '^worker 0@127.0.0.2 | hello$'
ok $? "what a login shell prints is no accident"

via=(--ssh "$work/no-such-ssh")
run --hosts 127.0.0.2 -- true
[ "$status" -eq 1 ] && says err 'or ssh is not there: .*no-such-ssh'
ok $? "an ssh that is not there is named"

via=(--ssh false)
if getent ahostsv4 localhost >"$work/out" 2>"$work/err"; then
  run --hosts localhost,127.0.0.1 --shards 2 --workers 2 -- sh -c 'echo "$PSD_SHARDS"'
  [ "$status" -eq 0 ] && says out '^worker 1 | localhost:[0-9]*,127.0.0.1:[0-9]*$'
  ok $? "this machine's own names need no ssh"
else
  skip "this machine's own names need no ssh" "localhost is no name here: there is no /etc/hosts"
fi

via=(--ssh "'$work/fake-ssh'")
address=127.0.0.2:$((20000 + RANDOM % 10000))
config='{"cluster": {"ps": ["'$address'"], "chief": ["127.0.0.1:1"], "worker": ["127.0.0.3:1"], "evaluator": ["127.0.0.2:1"]}}'
TF_CONFIG=$config run -- sh -c 'echo "${PSD_TASK-none} $TF_CONFIG"'
[ "$status" -eq 0 ] && says out '^chief 0 *| 0 .*"type":"chief"' && says out '^worker 0@127.0.0.3 *| 1 .*"type":"worker"' &&
  says out '^evaluator 0@127.0.0.2 *| none .*"type":"evaluator"'
ok $? "a TF_CONFIG without a task says what to start"
PSD_TEST_MARK=$mark "$PSRUN" "${via[@]}" --cluster-config - -- sh -c 'echo "$PSD_SHARDS"' <<<"$config" >"$work/out" 2>"$work/err"
is "$address" "$(sed -n 's/^chief 0 *| //p' "$work/out")" "--cluster-config reads the same; a shard listens where it says"

# Twelve at once on one machine: more than an sshd lets in.
run --hosts 127.0.0.2 --shards 2 --workers 12 -- sh -c 'echo here'
[ "$status" -eq 0 ] && [ "$(grep -c '| here$' "$work/out")" -eq 12 ]
ok $? "many processes on one machine all start"

# A machine whose /dev/shm has no room: the shard, killed once, goes on with its data on the disk.
cat >"$work/small-ssh" <<EOF
#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "\$@"' sh "$work/fake-ssh" "\$@"
EOF
chmod +x "$work/small-ssh"
if unshare --mount mount -t tmpfs tmpfs /dev/shm 2>/dev/null; then
  via=(--ssh "'$work/small-ssh'")
  start --hosts 127.0.0.2 --restart-shards 1 --restart-delay 0.1 -- sh -c 'echo "pid=$$"; exec sleep 1000'
  within says out '^worker 0@127.0.0.2 | pid='
  dir=$(dirs_of)
  kill -KILL "$(shard_pid 0)"
  within says err ' data=kept '
  [[ $dir = /tmp/psrun-* ]]
  ok $? "where /dev/shm has no room a shard's data goes to the disk, and is found there again"
  kill -INT "$psrun"
  finish
  [ "$status" -eq 130 ] && within none_marked && [ -n "$dir" ] && ! [ -e "$dir" ]
  ok $? "and is removed with the run"
else
  skip "where /dev/shm has no room a shard's data goes to the disk" "this user may not mount"
fi

# ---- here, without any ssh ----

via=()
free_of() { sed -n 's/.* max_mib=\([0-9]*\).*/\1/p' "$work/err" | head -n 1; }
run --shards 1 -- true
one=$(free_of)
run --shards 4 -- true
four=$(free_of)
[ "${one:-0}" -gt 0 ] && [ $((four * 4)) -gt $((one * 9 / 10)) ] && [ $((four * 4)) -lt $((one * 11 / 10)) ]
ok $? "four shards on one machine divide what one would take ($one MiB, $four MiB each)"
run --psd-option --memory=200MiB --shards 2 -- true
is 200 "$(free_of)" "unless they are told"

start --restart-shards 1 --restart-delay 0.1 -- sh -c 'echo "$PSD_SHARDS"; exec sleep 1000'
within says out '^worker 0 | 127'
dir=$(dirs_of)
kill -KILL "$(shard_pid 0)"
within says err 'started again'
twice() { [ "$(grep -c "listening address=$(sed -n 's/^worker 0 | //p' "$work/out")\$" "$work/err")" -eq 2 ]; }
within twice
ok $? "a shard of this machine is started again at the same address"
kill -KILL "$(shard_pid 0)"
finish
[ "$status" -eq 137 ] && none_marked && [ -n "$dir" ] && ! [ -e "$dir" ]
ok $? "but not more often than it was told, and its directory is removed"

start --restart-shards 9 --restart-delay 3000 --restart-delay-max 3000 -- sh -c 'echo "$PSD_SHARDS"; exec sleep 1000'
within says out '^worker 0 | 127'
dir=$(dirs_of)
kill -KILL "$(shard_pid 0)"
within says err 'started again in 50m'
kill -KILL "$psrun"
finish
[ -n "$dir" ] && within test ! -e "$dir" && within none_marked
ok $? "kill -9 of psrun while a shard waits for its next life leaves nothing, its directory neither"

run --restart-workers 3 -- sh -c 'exit 2'
[ "$status" -eq 2 ] && ! says err 'started again'
ok $? "a worker that was called wrongly is not started again"

# ---- a real sshd ----

# It serves the user that it runs as; SetEnv lets its sessions be found like all other processes of this test.
start_sshd() {
  local dir=$work/sshd
  [ -x "$SSHD" ] && command -v ssh ssh-keygen >/dev/null || return 1
  mkdir -m 700 "$dir"
  if [ "$(id -u)" -eq 0 ] && ! [ -d /run/sshd ]; then
    mkdir -m 755 /run/sshd && made_dir=/run/sshd
  fi
  port=$((20000 + RANDOM % 10000))
  ssh-keygen -q -t ed25519 -N '' -f "$dir/host" && ssh-keygen -q -t ed25519 -N '' -f "$dir/user" || return 1
  cp "$dir/user.pub" "$dir/authorized"
  echo "[127.0.0.2]:$port,[127.0.0.3]:$port $(cut -d' ' -f1,2 "$dir/host.pub")" >"$dir/known"
  : >"$dir/nobody-known"
  cat >"$dir/config" <<EOF
Port $port
ListenAddress 127.0.0.2
ListenAddress 127.0.0.3
HostKey $dir/host
AuthorizedKeysFile $dir/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
SetEnv PSD_TEST_MARK=$mark
EOF
  "$SSHD" -D -e -f "$dir/config" 2>"$dir/log" &
  sshd=$!
  ssh="ssh -F none -p $port -i '$dir/user' -o IdentitiesOnly=yes -o UserKnownHostsFile='$dir/known'"
  via=(--ssh "$ssh" --remote-psrun "$PSRUN" --remote-psd "$PSD_BIN")
  WITHIN=10 within sh -c "$ssh -o BatchMode=yes 127.0.0.2 true" 2>"$dir/login"
}

if ! start_sshd; then
  skip "the same through a real sshd" "no sshd that lets us in here: $(tail -n 1 "$work/sshd/login" 2>/dev/null)"
  done_testing
fi
way='sshd'
test_a_whole_run
test_directory
test_every_byte
test_statuses
test_signals
test_psrun_killed
test_connection_lost
test_supervisor_killed
test_ssh_killed
test_silence
test_shard_again
test_refusals

run --hosts 127.0.0.2 --shards 2 --workers 12 -- sh -c 'echo here'
[ "$status" -eq 0 ] && [ "$(grep -c '| here$' "$work/out")" -eq 12 ]
ok $? "sshd: many processes on one machine all start"

run --hosts 127.0.0.2,127.0.0.9 --shards 2 -- true
[ "$status" -eq 1 ] && says err 'shard 1@127.0.0.9: host 127.0.0.9 cannot be reached: ssh: connect to host 127.0.0.9 port [0-9]*: Connection refused'
ok $? "sshd: a machine that refuses is named, with what ssh said"
within none_marked
ok $? "sshd: and the others are torn down"

via=(--ssh "${ssh/known/nobody-known}" --remote-psrun "$PSRUN")
run --hosts 127.0.0.2 -- true
[ "$status" -eq 1 ] && says err 'host 127.0.0.2 cannot be reached: Host key verification failed'
ok $? "sshd: a machine whose key is not known is not trusted, and nobody is asked"

# It accepts, and then sends nothing, as a machine that hangs.
via=(--ssh "$ssh" --remote-psrun "$PSRUN")
kill -STOP "$sshd"
before=$SECONDS
run --hosts 127.0.0.2 --connect-timeout 1 -- true
[ "$status" -eq 1 ] && says err 'host 127.0.0.2 cannot be reached: .*timed out' && [ $((SECONDS - before)) -lt 60 ]
ok $? "sshd: a machine that hangs is given up after --connect-timeout"
kill -CONT "$sshd"
within none_marked
ok $? "sshd: and nothing is left"

done_testing
