#!/usr/bin/env bash
# The logistic example: it learns under every strategy, from plain and gzipped files, and reports errors in its input.
# Prints TAP; tap.sh says which executables are used.
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

LOGISTIC=${LOGISTIC_BIN:-$build/client/examples/logistic/logistic}
data=${PSD_SOURCE_DIR:-$here/../..}/client/examples/data/wdbc
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
cd "$work" || exit 1

run() {
  PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 2 --no-prefix --psd-option --log-level=warning -- "$LOGISTIC" \
    --train "$data/train.svm" --held-out "$data/held-out.svm" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

# The number of the 95 held-out examples that were classified correctly.
right() { sed -n 's/^held out: .* % right (\([0-9]*\) of 95), .*/\1/p' "$work/out"; }

for strategy in async ssp:2 sync; do
  run --strategy "$strategy" --epochs 60
  is 0 "$status" "$strategy: it trains"
  [ "$(right)" -ge 91 ]
  ok $? "$strategy: at least 91 of 95 held-out examples are told right ($(right))"
done

# Two workers of a full sync job make the same model every time, whatever the timing.
run --strategy sync --epochs 5 --seed 7
first=$(sed -n 's/^\(held out: .* weights are 0\); .*/\1/p' "$work/out")
run --strategy sync --epochs 5 --seed 7
is "$first" "$(sed -n 's/^\(held out: .* weights are 0\); .*/\1/p' "$work/out")" "the same seed gives the same result"

run --optimizer ftrl:learning_rate=1,l1=3 --epochs 40
zeros=$(sed -n 's/.*; \([0-9]*\) of 30 weights are 0; .*/\1/p' "$work/out")
[ "${zeros:-0}" -ge 3 ]
ok $? "FTRL with a large l1 leaves weights at exactly 0 (${zeros:-none})"

gzip -c "$data/train.svm" >train.svm.gz
run --train train.svm.gz --epochs 1
is 0 "$status" "gzipped examples are read"

# A file that names a column 0 and one that does not are of one data set: read apart, every feature was off by one.
awk 'BEGIN { for (i = 0; i < 40; i++) print (i % 2 ? "+1 1:1" : "-1 2:1") }' >ones.svm
awk 'BEGIN { for (i = 0; i < 10; i++) print (i % 2 ? "+1 1:1" : "-1 0:1 2:1") }' >zeros.svm
run --train ones.svm --held-out zeros.svm --base auto --epochs 30
says out 'right (10 of 10)'
ok $? "what the first column is called is found in both files together"

printf '+1 1:0.5 2:1\n-1 1:0.25 3:1\n' >few.svm
printf '+1 1:0.5 5:1\n-1 1:0.25 3:1\n' >more.svm
run --train few.svm --held-out more.svm --epochs 1
is "0 2 examples of 5 columns" "$status $(sed -n 's/^\(2 examples of [0-9]* columns\),.*/\1/p' "$work/out")" \
  "held-out examples may have more features"
run --train few.svm --held-out more.svm --epochs 1 --columns 7
is "0 2 examples of 7 columns" "$status $(sed -n 's/^\(2 examples of [0-9]* columns\),.*/\1/p' "$work/out")" \
  "and an option says how many there are"

# An age policy that is set while it runs drops pushes: that is no error. Worker 0 sets it as soon as the job is there.
cat >worker.sh <<EOF
[ "\$PSD_TASK" = 0 ] && while ! "$PSCTL" set --job logistic age=cutoff:0 && kill -0 \$\$; do :; done >set.out 2>&1 &
exec "$LOGISTIC" --train "$data/train.svm" --held-out "$data/held-out.svm" --epochs 300
EOF
PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 3 --no-prefix --psd-option --log-level=warning -- sh worker.sh \
  >"$work/out" 2>"$work/err" </dev/null
is 0 "$?" "it trains on when an age policy is set"
grep -q 'age=cutoff:0' set.out
ok $? "(which it was)"

# ---- what is wrong ----

printf '+1 1:1\n-1 1:2\n0 1:3\n' >three.svm
run --train three.svm --held-out three.svm
is 1 "$status" "three labels are refused"
says err 'DATA: three.svm: there are labels -1, 0 and 1: two classes have two labels'
ok $? "with a sentence"

printf '+1 1:1\n-1 x:2\n' >bad.svm
run --train bad.svm
says err 'DATA: bad.svm:2:4: the index "x" is not a whole number'
ok $? "a bad file is named with line and character"

run --train few.svm --held-out more.svm --columns 4
says err 'DATA: more.svm:1:10: the index 5 is past the last column, 4'
ok $? "an index past them is named with its place"

# Memory follows the columns, also those between two that are used: whoever has it is asked first.
printf '1 2147483647:0.5\n0 1:1\n' >far.svm
run --train far.svm --held-out far.svm
says err 'DATA: far.svm:1:3: the index 2147483647 is past 67108864: '
ok $? "an index that makes a model of gigabytes is refused where it stands"
run --train far.svm --held-out far.svm --columns 2147483647
says err "FULL: variable 'weights' needs"
ok $? "where it is wanted, shards refuse it before the worker takes memory"

printf '+1 1:1\n-1 1:2\n' >two.svm
run --train two.svm --held-out three.svm
says err 'DATA: three.svm: example 3 has the label 0, which is neither -1 nor 1' && ! says out 'examples of'
ok $? "a held-out label that is neither is told before the training"

run --optimizer adam:learning_rat=1
is 2 "$status" "an optimizer's parameter that does not exist is a mistake in the command line"
run --strategy often
says err "^logistic: --strategy: expected one of async, ssp:BOUND, sync, got 'often'$"
ok $? "and so is a strategy"

"$LOGISTIC" >"$work/out" 2>"$work/err"
is 2 "$?" "without a cluster it does not start"
says err 'there is no cluster in the environment'
ok $? "and says so"
TF_CONFIG='{"cluster": {"ps": ["localhost:1"], "worker": ["localhost:2"]}, "task": {"type": "ps", "index": 0}}' \
  "$LOGISTIC" >"$work/out" 2>"$work/err"
is 2 "$?" "it is no parameter server"
"$LOGISTIC" --train x >"$work/out" 2>"$work/err"
is 2 "$?" "--train needs --held-out"
"$LOGISTIC" --help >"$work/out"
says out '--optimizer TEXT'
ok $? "--help lists the options"

done_testing
