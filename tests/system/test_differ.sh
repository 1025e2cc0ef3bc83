#!/usr/bin/env bash
# Workers of a job that were started differently: one of them ends with MISMATCH, which says in what they differ, both
# values and the other worker, under every strategy of several workers and in a program without one; what may differ, and
# runs that follow one another, go on. Prints TAP; tap.sh says which executables are used.
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

LOGISTIC=${LOGISTIC_BIN:-$build/client/examples/logistic/logistic}
data=${PSD_SOURCE_DIR:-$here/../..}/client/examples/data
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
cd "$work" || exit 1

# worker.sh COMMON FIRST SECOND PROGRAM...: worker 0 with the first words, worker 1 with the second.
cat >worker.sh <<'END'
index=$(printf %s "$TF_CONFIG" | sed 's/.*"index": *\([0-9]*\).*/\1/')
common=$1 words=$2
[ "$index" = 0 ] || words=$3
shift 3
exec "$@" $common $words
END

# pair SHARDS COMMON FIRST SECOND PROGRAM...
pair() {
  local shards=$1
  shift
  PSD_TEST_MARK=$mark "$PSRUN" --shards "$shards" --workers 2 -- sh worker.sh "$@" >"$work/out" 2>&1 </dev/null
  status=$?
}

# differ LABEL SHARDS COMMON FIRST SECOND WORDS PROGRAM...: refused, with both values in either order.
differ() {
  local label=$1 shards=$2 common=$3 first=$4 second=$5 one=$6 other=$7
  shift 7
  pair "$shards" "$common" "$first" "$second" "$@"
  [ "$status" -ne 0 ] && grep -Eq "MISMATCH: worker (0 was started with $one, worker 1.* with $other|1 was started with $other, worker 0.* with $one)" "$work/out"
  ok $? "$label: $one and $other"
}

digits=("$DIGITS" --svg "" --timeout 20)
for strategy in async sync local_sgd multi_worker_mirrored; do
  shards=2
  [ "$strategy" = multi_worker_mirrored ] && shards=0
  common="--strategy $strategy"
  differ "$strategy" "$shards" "$common --epochs 2" "" "--batch 48" "batch '96'" "batch '48'" "${digits[@]}"
  [ "$strategy" = sync ] || [ "$strategy" = multi_worker_mirrored ] || continue
  differ "$strategy" "$shards" "$common" "--epochs 2" "--epochs 3" "epochs '2'" "epochs '3'" "${digits[@]}"
  differ "$strategy" "$shards" "$common --epochs 2" "--seed 1" "--seed 2" "seed '1'" "seed '2'" "${digits[@]}"
  differ "$strategy" "$shards" "$common --epochs 2" "--layers tanh" "--layers relu" "layers '8x8x1: tanh, dense 10'" \
    "layers '8x8x1: relu, dense 10'" "${digits[@]}"
done
differ local_sgd 2 "--strategy local_sgd --epochs 2" "--local-steps 4" "--local-steps 8" "local steps '4'" \
  "local steps '8'" "${digits[@]}"
differ local_sgd 2 "--strategy local_sgd --epochs 2" "--optimizer sgd" "--optimizer momentum" "optimizer 'sgd:.*'" \
  "optimizer 'momentum:.*'" "${digits[@]}"
differ sync 2 "--strategy sync --epochs 2" "" "--replicas 2" "replicas '1'" "replicas '2'" "${digits[@]}"
differ multi_worker_mirrored 0 "--strategy multi_worker_mirrored --epochs 2" "" "--compress int8" "compression 'none'" \
  "compression 'int8'" "${digits[@]}"

# Data that ends early, and data of as many rows that are others.
python3 - <<'END'
import os, struct

def idx(dims, data):
    return bytes([0, 0, 8, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + data

for name, rows, add in (("whole", 200, 0), ("short", 197, 0), ("other", 200, 1)):
    os.mkdir(name)
    for part, n in (("train", rows), ("t10k", 50)):
        with open(f"{name}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(idx([n, 8, 8], bytes((i % 10 * 5 + j + add * (i == n - 1)) % 17 for i in range(n) for j in range(64))))
        with open(f"{name}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(idx([n], bytes(i % 10 for i in range(n))))
END
for strategy in async sync local_sgd; do
  differ "$strategy" 2 "--strategy $strategy --epochs 2" "--data whole" "--data short" "data '[0-9a-f]*'" \
    "data '[0-9a-f]*'" "${digits[@]}"
  grep -q 'other values, too, of rows' "$work/out"
  ok $? "$strategy: and other rows"
  differ "$strategy" 2 "--strategy $strategy --epochs 2" "--data whole" "--data other" "data '[0-9a-f]*'" \
    "data '[0-9a-f]*'" "${digits[@]}"
done
pair 2 "--strategy async --epochs 2 --may-differ data,first" "--data whole" "--data other" "${digits[@]}"
is 0 "$status" "what may differ differs"

# A program without a strategy.
logistic=("$LOGISTIC" --train "$data/wdbc/train.svm" --held-out "$data/wdbc/held-out.svm")
for strategy in async ssp:2 sync; do
  differ "logistic, $strategy" 2 "--strategy $strategy --epochs 2" "" "--batch 32" "batch '64'" "batch '32'" "${logistic[@]}"
done
head -n 300 "$data/wdbc/train.svm" >short.svm
differ logistic 2 "--epochs 2" "" "--train short.svm" "data '[0-9a-f]*'" "data '[0-9a-f]*'" "$LOGISTIC" \
  --held-out "$data/wdbc/held-out.svm" --train "$data/wdbc/train.svm"
pair 2 "--epochs 2 --may-differ" "" "--batch 32" "${logistic[@]}"
is 0 "$status" "logistic: what may differ differs"

# Runs one after the other, each started otherwise than the last one, on shards that stay; and one that was killed.
cat >runs.sh <<END
train() {
  PSD_WORKERS=2 PSD_TASK=0 "$DIGITS" --svg "" --strategy sync "\$@" >/dev/null &
  one=\$!
  PSD_WORKERS=2 PSD_TASK=1 "$DIGITS" --svg "" --strategy sync "\$@" >/dev/null || return 1
  wait "\$one"
}
export PSD_SHARDS=\$1 PSD_CLUSTER=local
unset TF_CONFIG
train --epochs 1 && train --epochs 2 && train --epochs 3 --batch 48 && echo "the runs went on"
PSD_WORKERS=1 PSD_TASK=0 "$DIGITS" --svg "" --strategy async --job killed --epochs 1000000 >/dev/null &
victim=\$!
while kill -0 "\$victim" && ! "$PSCTL" workers --shards "\$PSD_SHARDS" --job killed --json | grep -Eq '"clock": *[1-9]'; do sleep 0.02; done
kill -9 \$!
wait \$! 2>/dev/null
PSD_WORKERS=1 PSD_TASK=0 "$DIGITS" --svg "" --strategy async --job killed --epochs 100 --batch 1497 >/dev/null && echo "so did the killed one"
END
cat >first.sh <<'END'
shards=$(printf %s "$TF_CONFIG" | sed 's/.*"ps": *\[\([^]]*\)\].*/\1/; s/[" ]//g')
exec bash runs.sh "$shards"
END
PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 1 --no-prefix --psd-option --log-level=warning -- sh first.sh >"$work/out" \
  2>&1 </dev/null
grep -q '^the runs went on$' "$work/out"
ok $? "runs that follow one another may be started otherwise"
grep -q '^so did the killed one$' "$work/out"
ok $? "and so may one whose only worker was killed"

done_testing
