#!/usr/bin/env bash
# deploy/slurm/psd.sbatch with an srun and an scontrol that simulate two nodes: its shards start and end, its workers
# train, and the next job begins at the checkpoint. Prints TAP; tap.sh says which executables are used.
#
# Helpers are called by name (SC2317); scripts written for others expand there (SC2016); commands are long, and their status
# is checked below them (SC2181).
# shellcheck disable=SC2016,SC2181,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
batch=$source/deploy/slurm/psd.sbatch
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER PSD_CHECKPOINTS PSD_OPTIONS PSD_TLS_CA PSD_TLS_CERT PSD_TLS_KEY PSD_TLS_NAME

# ---- a Slurm ----

mkdir "$work/bin"
ln -s "$PSD_BIN" "$work/bin/psd"
ln -s "$PSCTL" "$work/bin/psctl"
ln -s "$DIGITS" "$work/bin/digits"
ln -s "${PSD_BUILD_DIR:-$build}/tests/system/bits" "$work/bin/bits"
cat >"$work/bin/scontrol" <<'END'
#!/bin/sh
[ "$1 $2 $3" = "show hostnames $SLURM_JOB_NODELIST" ] && printf '%s\n' 127.0.0.1 127.0.0.2
END
# Distributes tasks over the nodes in turn, forwards signals, and knows no options but those that are used.
cat >"$work/bin/srun" <<'END'
#!/usr/bin/env bash
while [[ $1 = --* ]]; do
  case $1 in
    --nodes=*) nodes=${1#*=} ;;
    --ntasks=*) tasks=${1#*=} ;;
    --ntasks-per-node=*) per_node=${1#*=} ;;
    --overlap | --mem=0 | --kill-on-bad-exit=0) ;;
    *) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
  esac
  shift
done
[ "$((nodes * per_node))" -eq "$tasks" ] && [ "$nodes" -eq 2 ] || { echo "srun: tasks do not fit" >&2; exit 1; }
pids=()
trap 'kill -TERM "${pids[@]}" 2>/dev/null' TERM
for ((task = 0; task < tasks; task++)); do
  SLURM_PROCID=$task SLURM_NODEID=$((task % nodes)) SLURM_LOCALID=$((task / nodes)) "$@" &
  pids+=($!)
done
worst=0
for pid in "${pids[@]}"; do
  while :; do
    wait "$pid"
    status=$?
    kill -0 "$pid" 2>/dev/null || break # else the wait was cut short by a signal
  done
  [ "$status" -le "$worst" ] || worst=$status
done
exit "$worst"
END
chmod +x "$work"/bin/{srun,scontrol}

# A number that no other job has now: the ports come from it.
job=$((RANDOM + 1))
live="/dev/shm/psd-$(id -u)/job-$job"
trap 'cleanup; rm -rf "$live"-*' EXIT

# submit [NAME=VALUE...] -- WORKER...
submit() {
  local variables=()
  while [ "$1" != -- ]; do
    variables+=("$1")
    shift
  done
  env PSD_TEST_MARK="$mark" PATH="$work/bin:$PATH" SLURM_JOB_ID="$job" SLURM_JOB_NODELIST='127.0.0.[1-2]' \
    PSD_OPTIONS='--memory=64MiB --log-level=warning' "${variables[@]}" bash "$batch" "${@:2}" >"$work/out" 2>"$work/err" </dev/null
}
# The output of a job.
left() {
  none_marked || echo "processes: $(marked)"
  ls -d "$live"-* 2>/dev/null
}

# ---- the script ----

if command -v shellcheck >/dev/null; then
  shellcheck -x "$batch" >"$work/out" 2>"$work/err"
  ok $? "shellcheck accepts the script"
else
  skip "shellcheck accepts the script" "it is not installed"
fi
bash "$batch" worker >"$work/out" 2>"$work/err"
is 2 $? "outside of a job it says how it is used"

submit PSD_SHARDS_PER_NODE=two -- true
is "2 psd.sbatch: PSD_SHARDS_PER_NODE: expected a whole number from 1, got 'two'" "$? $(cat "$work/err")" "a count that is none is refused"
submit PSD_WORKERS_PER_NODE=0 -- true
is "2 psd.sbatch: PSD_WORKERS_PER_NODE: expected a whole number from 1, got '0'" "$? $(cat "$work/err")" "and one of 0"
submit PSD_PORT=99999 -- true
is "2 psd.sbatch: PSD_PORT: expected a port from 1 to 65535, got '99999'" "$? $(cat "$work/err")" "and a port that is none"
host=$(hostname)
submit PATH=/usr/bin:/bin -- true
is "2 psd.sbatch: scontrol is not in PATH on $host" "$? $(cat "$work/err")" "a program that is not there is named"

data=$source/client/examples/data/digits
submit PSD_WORKERS_PER_NODE=2 -- digits --svg '' --epochs 30 --data "$data" --strategy sync
must $? "a job trains to its end"
accuracy=$(sed -n 's/^held-out accuracy  *\([0-9]*\).*/\1/p' "$work/out")
[ "${accuracy:-0}" -ge 90 ]
ok $? "and has learnt the digits (${accuracy:-?} %)"
is "" "$(left)" "nothing of it is left on the nodes"
submit PSD_WORKERS_PER_NODE=2 PSD_SHARDS_PER_NODE=2 -- bash -c 'echo "$PSD_TASK of $PSD_WORKERS, $SLURM_NODEID"'
is "0 of 4, 0;1 of 4, 0;2 of 4, 1;3 of 4, 1;" "$(sort "$work/out" | tr '\n' ';')" \
  "each worker has its number, and those of a node follow each other"
says err "shards: 127.0.0.1:[0-9]*,127.0.0.1:[0-9]*,127.0.0.2:[0-9]*,127.0.0.2:[0-9]*$"
ok $? "so do the shards"

submit -- sh -c 'exit $((PSD_TASK * 3))'
is 3 $? "a worker's failure is the job's"
is "" "$(left)" "which is cleared away just so"
submit PSD_OPTIONS=--nonsense -- true
is 1 $? "shards that do not start end the job"
says err '^psd.sbatch: shard [01] on 127.0.0.[12] has ended, and its last line says why: the 2 shards did not start$'
ok $? "which says so"
is "" "$(left)" "and leaves nothing"

# ---- shards that are not as they should be ----

# other_psd SCRIPT: psd of the jobs to come; the script has the shard's number in $2, and $real is psd. To undo: real_psd.
other_psd() {
  rm "$work/bin/psd"
  printf '#!/usr/bin/env bash\nreal=%q work=%q\n%s\n' "$PSD_BIN" "$work" "$1" >"$work/bin/psd"
  chmod +x "$work/bin/psd"
}
real_psd() { ln -sf "$PSD_BIN" "$work/bin/psd"; }

other_psd '[ "$2" != 1 ] || { echo "no such luck" >&2; exit 1; }; exec "$real" "$@"'
submit -- true
is 1 $? "when one of two shards cannot start the job ends, and does not wait for its time to be up"
says err 'no such luck' && says err '^psd.sbatch: shard 1 on 127.0.0.2 has ended, and its last line says why: the 2 shards did not start$'
ok $? "with a sentence"
is "" "$(left)" "and nothing of the other one is left"

other_psd '[ "$2" != 1 ] || export PSD_TOKEN=another:0123456789abcdef; exec "$real" "$@"'
submit PSD_TOKEN=ours:0123456789abcdef -- true
[ $? -eq 1 ] && says err "^psctl: shard 1 at 127.0.0.2:[0-9]*: token 'ours' is not accepted" && says err ': the 2 shards did not start$'
ok $? "a shard that denies the job ends it at once, with the reason"

other_psd '[ "$2" != 1 ] || exec sleep 1000; exec "$real" "$@"'
submit PSD_START_TIMEOUT=300ms -- true
[ $? -eq 1 ] && says err '^psctl: shard 1 at 127.0.0.2:[0-9]* does not answer after 300ms' && says err ': the 2 shards did not start$'
ok $? "one that stands still ends it after PSD_START_TIMEOUT"
is "" "$(left)" "and nothing is left of it"
real_psd

: >"$work/out"
submit -- sh -c 'echo here; exec sleep 1000' &
submitted=$!
within says out here
pid_of_shard() { for pid in $(marked); do words "$pid" | tr '\n' ' ' | grep "^[^ ]*psd --shard $1 " >/dev/null && echo "$pid"; done; }
kill -KILL "$(pid_of_shard 1)"
wait "$submitted"
[ $? -eq 1 ] && says err '^psd.sbatch: shard 1 on 127.0.0.2 has ended, and its last line says why: the job ends with it$'
ok $? "a shard that is lost while workers train ends the job, which says so"
is "" "$(left)" "and leaves nothing"

# ---- ports ----

# ports: of the shards of the last job that was started, one a line.
ports() { sed -n 's/^psd.sbatch: shards: //p' "$work/err" | tail -n 1 | tr , '\n' | sed 's/.*://'; }
read -r low high </proc/sys/net/ipv4/ip_local_port_range
# outside LOW HIGH: ports are found, and none of them is in that range.
outside() { ports | awk -v low="$1" -v high="$2" '$1 < 1024 || $1 > 65535 || ($1 >= low && $1 <= high) { bad = 1 } END { exit bad || NR != 4 }'; }
result=0
for job in 1 4711 8321 1234567890; do
  submit PSD_SHARDS_PER_NODE=2 -- true
  [ $? -eq 0 ] && outside "$low" "$high" || result=1
done
ok "$result" "ports lie outside the range of outgoing connections ($low to $high), whatever the job's number is"

first=$(ports | head -n 1)
# listen ADDRESS PORT: there listens somebody else.
listen() {
  PSD_TEST_MARK=$mark python3 -c 'import socket, sys, time
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
open(sys.argv[3], "w").close()
time.sleep(1000)' "$1" "$2" "$work/listening" >"$work/out" 2>"$work/err" </dev/null &
  taken=$!
  within test -e "$work/listening"
  rm -f "$work/listening"
}
listen 127.0.0.2 $((first + 1))
submit PSD_SHARDS_PER_NODE=2 -- true
is 0 $? "a port that is in use on one node is passed over"
! ports | grep -qx $((first + 1)) && outside "$low" "$high"
ok $? "for others"
submit PSD_SHARDS_PER_NODE=2 PSD_PORT="$first" -- true
[ $? -eq 1 ] && says err "^psd.sbatch: a port from PSD_PORT=$first on is in use on 127.0.0.[12]; "
ok $? "PSD_PORT says which to take: where one of them is in use the job ends at once, and says so"
kill "$taken"
wait "$taken" 2>/dev/null
submit PSD_SHARDS_PER_NODE=2 PSD_PORT="$first" -- true
is "0 $(seq "$first" $((first + 1)) | paste -sd' ')" "$? $(ports | head -n 2 | paste -sd' ')" "otherwise they are taken"

# Another job is quicker: it listens between the look and the start.
other_psd 'if [ "$2" = 1 ] && mkdir "$work/quicker" 2>/dev/null; then
  at=${PSD_SHARDS##*,}
  "$real" --cluster quicker --listen "$at" --live-dir "$work/quicker/live" --memory 64MiB --ready-file "$work/quicker/ready" >/dev/null 2>&1 &
  until [ -s "$work/quicker/ready" ]; do sleep 0.05; done
fi
exec "$real" "$@"'
submit -- true
[ $? -eq 0 ] && says err '^psd.sbatch: a port from [0-9]* on was taken on 127.0.0.[12] meanwhile: others are tried$' &&
  [ "$(grep -c '^psd.sbatch: shards: ' "$work/err")" -eq 2 ]
ok $? "a port that is taken between the look and the start makes the job try others"
for pid in $(marked); do
  kill -KILL "$pid"
done
within none_marked
real_psd

# ---- TLS ----

certs=$work/certs
"$source/deploy/make-certs.sh" "$certs" shard=127.0.0.1,127.0.0.2 worker=127.0.0.1,127.0.0.2 >"$work/out" 2>"$work/err"
must $? "there are certificates"
tls="--memory=64MiB --tls-cert=$certs/shard.pem --tls-key=$certs/shard.key --tls-client-ca=$certs/ca.pem"
shows=(PSD_TLS_CA="$certs/ca.pem" PSD_TLS_CERT="$certs/worker.pem" PSD_TLS_KEY="$certs/worker.key")
submit PSD_OPTIONS="$tls" "${shows[@]}" PSD_CHECKPOINTS="$work/sealed" -- sh -c 'test "$PSD_TASK" != 0 || exec bits push'
status=$?
[ "$status" -eq 0 ] && [ "$(grep -c 'TCP connections are encrypted .*clients=with_certificate' "$work/err")" -eq 2 ]
ok $? "with certificates shards, workers and psctl speak TLS"
[ -e "$work/sealed/latest" ]
ok $? "and the job leaves its checkpoint"
is "" "$(left)" "and nothing else"

# ---- checkpoints ----

submit PSD_CHECKPOINTS="$work/saved" -- sh -c 'test "$PSD_TASK" != 0 || exec bits push'
is 0 $? "a job leaves a checkpoint"
before=$(grep -xE '[0-9a-f]{16}' "$work/out")
[ -n "$before" ] && [ -e "$work/saved/latest" ]
ok $? "which is the latest"
job=$((job + 1))
live="/dev/shm/psd-$(id -u)/job-$job"
submit PSD_CHECKPOINTS="$work/saved" -- sh -c 'test "$PSD_TASK" != 0 || exec bits pull'
is 0 $? "the next one begins with it"
is "$before" "$(grep -xE '[0-9a-f]{16}' "$work/out")" "and has the same bits"

rm -r "$work/saved"
submit PSD_CHECKPOINTS="$work/saved" -- digits --svg '' --epochs 5000 --data "$data" --strategy sync &
submitted=$!
within says out '^epoch'
ok $? "a training that lasts"
batch_pid=$(for pid in $(marked); do words "$pid" | grep -qxF "$batch" && echo "$pid"; done | sort -n | head -n 1)
kill -TERM "$batch_pid"
wait "$submitted"
is 143 $? "is told that its time is up"
[ -e "$work/saved/latest" ]
ok $? "leaves a checkpoint"
is "" "$(left)" "and nothing on the nodes"

done_testing
