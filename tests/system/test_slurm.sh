#!/usr/bin/env bash
# deploy/slurm/psd.sbatch with an srun and an scontrol that simulate two nodes: its shards start and end, its workers
# train, and the next job begins at the checkpoint. Prints TAP; tap.sh says which executables are used.
#
# Helpers are called by name (SC2317); scripts written for others expand there (SC2016).
# shellcheck disable=SC2016,SC2317
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

data=$source/client/examples/data/digits
submit PSD_WORKERS_PER_NODE=2 -- digits --svg '' --epochs 30 --data "$data" --strategy sync
is 0 $? "a job trains to its end"
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
says err 'the 2 shards did not start'
ok $? "which says so"

# ---- TLS ----

certs=$work/certs
"$source/deploy/make-certs.sh" "$certs" shard=127.0.0.1,127.0.0.2 worker=127.0.0.1,127.0.0.2 2>"$work/err"
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
