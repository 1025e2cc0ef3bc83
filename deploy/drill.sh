#!/usr/bin/env bash
# Backup and restore, tried: throw-away shards on this machine train something, crash, lose their memory, and come back as
# another number of shards from a checkpoint; and each time the model is the same, byte by byte.
set -euo pipefail

usage() {
  cat <<END
usage: deploy/drill.sh [options] -- WORKER [its options]

Starts two shards in a directory of its own, lets two of your workers train on them to their end, and then tries what a
cluster must come through: kill -9 of all shards, a power loss after a save, a restore of a checkpoint by three shards, and a
checkpoint that was damaged. Touches no other cluster. Exit status 0: all of it went well.

  --memory SIZE   of a shard (default 256MiB)
  --timeout TIME  how long the training may take: in seconds or with m, h (default 1h)
  --disk DIR      where durable directories and checkpoints go, and are removed from (default a directory in \$TMPDIR)
  --help          print this

psd, psctl and psrun are those of PATH.
END
}

memory=256MiB disk='' timeout=1h
start_s=60 # for a shard's start
while [ $# -gt 0 ]; do
  case $1 in
    --memory | --disk | --timeout)
      if [ $# -lt 2 ]; then
        echo "drill: $1: expected a value after it" >&2
        exit 2
      fi
      declare "${1#--}=$2"
      shift
      ;;
    --memory=* | --disk=* | --timeout=*)
      name=${1%%=*}
      declare "${name#--}=${1#*=}"
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    --)
      shift
      break
      ;;
    *)
      echo "drill: unknown option '$1'; --help lists them" >&2
      exit 2
      ;;
  esac
  shift
done
if [ $# -eq 0 ]; then
  echo "drill: expected the worker's program after --, as in deploy/drill.sh -- ./my_worker; --help says more" >&2
  exit 2
fi
if [[ ! $timeout =~ ^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?$ ]]; then
  echo "drill: --timeout: expected a time such as 90, 10m or 1h, got '$timeout'" >&2
  exit 2
fi
for dir in "${disk:-${TMPDIR:-/tmp}}" /dev/shm; do
  if [ ! -d "$dir" ] || [ ! -w "$dir" ]; then
    echo "drill: $dir is no directory that can be written to; --disk and TMPDIR name another than /tmp" >&2
    exit 2
  fi
done

for program in psd psctl psrun; do
  if ! command -v "$program" >/dev/null; then
    echo "drill: $program is not in PATH; it is where psd is installed, or in build/server and build/client/tools" >&2
    exit 1
  fi
done

unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK RUNTIME_DIRECTORY STATE_DIRECTORY
export PSD_CLUSTER=drill
disk=$(mktemp -d "${disk:-${TMPDIR:-/tmp}}/psd-drill-XXXXXX")
live=$(mktemp -d /dev/shm/psd-drill-XXXXXX)
pids=()
kill_all() {
  if [ "${#pids[@]}" -gt 0 ]; then
    kill -KILL "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  pids=()
}
trap 'kill_all; rm -rf "$disk" "$live"' EXIT

fail() {
  echo "drill: $*" >&2
  tail -n 5 "$disk"/*.log >&2 2>/dev/null || true
  exit 1
}

# shards SET COUNT: they start, on ports that are free, with the directories of that name, and PSD_SHARDS says where.
shards() {
  local i list='' end=$((SECONDS + start_s))
  for ((i = 0; i < $2; i++)); do
    rm -f "$disk/$1-$i.ready"
    psd --listen 127.0.0.1:0 --cluster drill --shard "$i" --shards "$2" --live-dir "$live/$1-$i" --durable-dir "$disk/$1-$i" \
      --memory "$memory" --save-interval 0 --ready-file "$disk/$1-$i.ready" 2>>"$disk/$1-$i.log" &
    pids+=($!)
  done
  for ((i = 0; i < $2; i++)); do
    until [ -s "$disk/$1-$i.ready" ]; do
      kill -0 "${pids[$i]}" 2>/dev/null || fail "shard $i does not start"
      [ "$SECONDS" -lt "$end" ] || fail "shard $i has not started after $start_s s"
      sleep 0.05
    done
    list+=${list:+,}$(cat "$disk/$1-$i.ready")
  done
  export PSD_SHARDS=$list
}

# What the cluster holds, weights and slots, as one line.
fingerprint() {
  rm -rf "$disk/look"
  psctl checkpoint --name now "$disk/look" >/dev/null || fail "no checkpoint"
  (cd "$disk/look/now" && find . -name '*.safetensors' -print0 | sort -z | xargs -0 cat | sha256sum)
}

# same SENTENCE
same() {
  [ "$(fingerprint)" = "$before" ] || fail "$1: the model is another one"
  echo "$1: the model is the same"
}

shards two 2
echo "training on two shards ..."
psrun --cluster drill --ps "$PSD_SHARDS" --workers 2 --timeout "$timeout" -- "$@" >"$disk/workers.log" 2>&1 ||
  case $? in
    124) fail "the training has not ended after $timeout (--timeout)" ;;
    *) fail "the workers failed" ;;
  esac
psctl checkpoint --name kept "$disk/saved" >/dev/null || fail "no checkpoint"
before=$(fingerprint)

kill_all
shards two 2
same "kill -9 of all shards"

psctl save >/dev/null || fail "no save"
kill_all
rm -r "$live"/two-*
shards two 2
grep -q 'rebuilt from the durable directory' "$disk/two-0.log" || fail "shard 0 was not rebuilt"
same "power loss after a save"

kill_all
shards three 3
psctl restore "$disk/saved/kept" >/dev/null || fail "the checkpoint is not taken"
same "a restore by three shards"

cp -r "$disk/saved/kept" "$disk/damaged"
file=$(find "$disk/damaged" -name 'weights*.safetensors' | head -n 1)
byte=$(tail -c 1 "$file" | od -An -tu1)
printf '%b' "\\0$(printf %o $(((byte + 1) % 256)))" | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 1)) conv=notrunc status=none
if psctl restore "$disk/damaged" >/dev/null 2>&1; then
  fail "a damaged checkpoint was taken"
fi
same "a damaged checkpoint is refused"
