#!/usr/bin/env bash
# psctl export and import against real shards. Prints TAP; tap.sh says which executables are used.
#
# Helpers are called by name (SC2317).
# shellcheck disable=SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=psctl.sh
. "$here/psctl.sh"

# tensors FILE: its tensors, a line each.
tensors() {
  python3 - "$1" <<'EOF'
import array, json, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", data[:8])
head = json.loads(data[8:8 + n])
print("job", head.pop("__metadata__")["job"])
at = 0
for name, t in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
    begin, end = t["data_offsets"]
    assert begin == at, name
    at = end
    values = array.array("f", data[8 + n + begin:8 + n + end])
    print(name, t["dtype"], "x".join(map(str, t["shape"])), "%.9g" % sum(values))
assert 8 + n + at == len(data)
EOF
}

PSD_TEST_MARK=$mark "$PSRUN" --shards 2 --workers 2 --keep-servers -- \
  "$DIGITS" --strategy sync --epochs 1 --data "$data" --svg '' >"$work/out" 2>"$work/err" </dev/null
is 0 $? "a run leaves its shards"
PSD_SHARDS=$(sed -n 's/.*export PSD_SHARDS=\([^ ]*\) .*/\1/p' "$work/err")
stop=$(sed -n 's/^psrun *|   \(kill .*\)/\1/p' "$work/err")
export PSD_SHARDS

# ---- export ----

psctl export "$work/model.safetensors"
[ "$status" -eq 0 ] && says out '^4 variables of job "digits", 3[0-9.]* KiB, in ' && says out '^of one moment'
ok $? "export says what went where, and that it is of one moment"
tensors "$work/model.safetensors" >"$work/read" 2>"$work/err" && grep -qx 'job digits' "$work/read" &&
  grep -q '^dense0/weights F32 64x128 ' "$work/read" && grep -q '^dense1/bias F32 10 ' "$work/read"
ok $? "and others read it"

psctl checkpoint "$work/models" --name one --json
python3 -c 'import json, sys
assert json.load(open(sys.argv[1])) == {"command": "checkpoint", "path": sys.argv[2], "shards": 2}' "$work/out" "$work/models/one"
ok $? "a checkpoint is told as JSON"
psctl export --json --from-checkpoint "$work/models/latest" "$work/one.safetensors"
python3 - "$work/out" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["command"] == "export" and d["job"] == "digits" and d["variables"] == 4 and d["one_moment"] and d["clock"] > 0
EOF
ok $? "a checkpoint's weights are exported without a shard"
psctl snapshot diff "$work/model.safetensors" "$work/one.safetensors"
is "0 0 of 4 tensors differ" "$status $(cat "$work/out")" "and are what the shards gave"

psctl export --variables '*/bias' "$work/model.safetensors"
[ "$status" -eq 0 ] && tensors "$work/model.safetensors" >"$work/out" && [ "$(wc -l <"$work/out")" -eq 3 ]
ok $? "a pattern chooses variables, and an older file is replaced"
before=$(ls "$work")
psctl export --variables 'x*' "$work/model.safetensors"
[ "$status" -eq 3 ] && says err 'no variable of job "digits" has a name that fits "x\*"' && [ "$(ls "$work")" = "$before" ]
ok $? "none is refused, and nothing is left of it"
psctl export --variables dense0/bais "$work/model.safetensors"
[ "$status" -eq 3 ] && says err '; did you mean dense0/bias?'
ok $? "with the variable that was meant"
psctl export "$work/nowhere/model.safetensors"
[ "$status" -eq 1 ] && says err 'cannot make .*nowhere/model.safetensors: No such file'
ok $? "a directory that is not there is told"
psctl export /dev/null
[ "$status" -eq 3 ] && says err 'is there and is no file'
ok $? "what is no file is not replaced"
psctl export
[ "$status" -eq 2 ] && says err 'expected one file'
ok $? "and a file is needed"

# ---- import ----

# made FILE DTYPE VALUE NAME SHAPE...: a file of tensors that are filled with the value.
made() {
  python3 - "$@" <<'EOF'
import json, math, struct, sys
path, dtype, value = sys.argv[1:4]
head, data = {}, b""
for name, shape in zip(sys.argv[4::2], sys.argv[5::2]):
    dims = [int(n) for n in shape.split("x")]
    bits = struct.pack("<f", float(value))
    one = {"F32": bits, "BF16": bits[2:], "F16": struct.pack("<e", float(value)), "I64": struct.pack("<q", 7)}[dtype]
    begin = len(data)
    data += one * math.prod(dims)
    head[name] = {"dtype": dtype, "shape": dims, "data_offsets": [begin, len(data)]}
text = json.dumps(head).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
EOF
}

# sum NAME: the present values of a variable on the shards, added up.
sum() {
  rm -f "$work/now.safetensors"
  "$PSCTL" export "$work/now.safetensors" ${2:+--job "$2"} --variables "$1" >/dev/null 2>&1
  tensors "$work/now.safetensors" | sed -n 's/.* //p' | tail -n 1
}

bias=$(sum dense1/bias)
made "$work/in.safetensors" BF16 0.5 dense0/bias 128
psctl import "$work/in.safetensors"
is '0 1 variable of job "digits", 0 of them new, 128 elements; 2 shards' "$status $(cat "$work/out")" "import says what it did"
is "64 $bias" "$(sum dense0/bias) $(sum dense1/bias)" "the variable has the values, the others have theirs"
psctl variables --json --top 9 --variables 'dense?/bias'
python3 - "$work/out" <<'EOF'
import json, sys
versions = {v["name"]: v["version"] for v in json.load(open(sys.argv[1]))["top"]}
assert versions["dense0/bias"] == 0 and versions["dense1/bias"] > 0, versions
EOF
ok $? "its updates count from 0 again"
[ -z "$(find "$work" -maxdepth 1 -name 'psctl-import-*')" ]
ok $? "and nothing is left on the way"

"$PSCTL" export "$work/all.safetensors" >/dev/null 2>&1
# refused STATUS PATTERN SENTENCE ARGS...: an import is refused, and nothing has changed.
refused() {
  local wanted=$1 pattern=$2 sentence=$3
  shift 3
  psctl import "$@"
  cp "$work/err" "$work/said"
  [ "$status" -eq "$wanted" ] && grep -q -- "$pattern" "$work/said" && "$PSCTL" export "$work/now.safetensors" >/dev/null 2>&1 &&
    "$PSCTL" snapshot diff "$work/all.safetensors" "$work/now.safetensors" >/dev/null 2>&1 &&
    [ -z "$(find "$work" -maxdepth 1 -name 'psctl-import-*')" ]
  ok $? "$sentence"
}
made "$work/in.safetensors" F32 1 dense0/bias 64
refused 3 "has the shape \[64\], the variable \[128\]" "another shape is refused" "$work/in.safetensors"
made "$work/in.safetensors" F32 1 dense0/bias 128 new 7
refused 3 "tensor 'new': the job has no such variable" "so is a variable that is not there" "$work/in.safetensors"
made "$work/in.safetensors" F32 nan dense0/bias 128
refused 3 "element 0 of tensor 'dense0/bias' is nan" "and what is no finite number" "$work/in.safetensors"
made "$work/in.safetensors" I64 1 dense0/bias 128
refused 3 "is of I64: F32, F16 and BF16" "and whole numbers" "$work/in.safetensors"
made "$work/in.safetensors" F32 1 dense0/bias 128
truncate -s -1 "$work/in.safetensors"
refused 3 "in.safetensors: .*outside" "and a file that was cut" "$work/in.safetensors"
refused 2 "optimizer" "an optimizer that is none is wrong usage" --declare nonsense "$work/in.safetensors"
refused 1 "cannot open .*nowhere" "a file that is not there is told" "$work/nowhere"
made "$work/in.safetensors" F32 1 dense0/bias 128
refused 1 "cannot make a directory in .*nowhere" "and a directory" --through "$work/nowhere" "$work/in.safetensors"

made "$work/in.safetensors" F16 2 new 3x5
psctl import --declare adagrad:initial_accumulator=0.1 --json "$work/in.safetensors"
python3 - "$work/out" <<'EOF'
import json, sys
assert json.load(open(sys.argv[1])) == {"command": "import", "path": sys.argv[1][:-3] + "in.safetensors", "job": "digits",
                                        "variables": 1, "declared": 1, "elements": 15, "shards": 2}
EOF
ok $? "with an optimizer it is declared"
psctl variables --top 1 --variables new
has '^digits new .* adagrad' && [ "$(sum new)" = 30 ]
ok $? "and has its values"
psctl import --job other --declare sgd --mode ssp --bound 3 --workers 2 "$work/in.safetensors"
[ "$status" -eq 0 ] && [ "$(sum new other)" = 30 ] && psctl jobs --job other && has '^other all 2 .*ssp(\(| )?bound 3'
ok $? "in a job that is made, too"
odd=$work/$'odd\xff.partial'
cp "$work/in.safetensors" "$odd"
psctl import --job other "$odd"
[ "$status" -eq 0 ] && [ "$(sum new other)" = 30 ]
ok $? "whatever the file is called"

# Other programs' files have more than weights: counters, and types that come to be later.
python3 - "$work/in.safetensors" <<'EOF'
import json, struct, sys
head = {"dense0/bias": {"dtype": "F32", "shape": [128], "data_offsets": [0, 512]},
        "bn.num_batches_tracked": {"dtype": "I64", "shape": [], "data_offsets": [512, 520]},
        "scales": {"dtype": "F8_E8M0", "shape": [3], "data_offsets": [520, 523]}}
text = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + struct.pack("<f", 0.25) * 128 + bytes(11))
EOF
psctl import --job digits --variables 'dense*' "$work/in.safetensors"
is "0 32" "$status $(sum dense0/bias digits)" "a tensor of a type that is not known does not matter when it is not wanted"
psctl import --job digits --except '*.num_batches_tracked' --except scales "$work/in.safetensors"
[ "$status" -eq 0 ] && says out '^1 variable of job "digits"'
ok $? "and several may be left out"
psctl import --job digits --variables 'dense*' --except scale "$work/in.safetensors"
[ "$status" -eq 0 ] && says err '^psctl: --except scale leaves nothing out: .*in.safetensors has no such tensor; did you mean scales?$'
ok $? "a pattern that leaves nothing out is said"
psctl import --job digits --variables dense0/bais "$work/in.safetensors"
[ "$status" -eq 3 ] && says err 'it has no tensor that "dense0/bais" names; did you mean dense0/bias?'
ok $? "one that names nothing is refused, with the tensor that was meant"
psctl import --job digits --except scales "$work/in.safetensors"
[ "$status" -eq 3 ] && says err "tensor 'bn.num_batches_tracked' is of I64: F32, F16 and BF16 become variables (except leaves others out)"
ok $? "one that is wanted is refused with the way out"
psctl snapshot diff "$work/in.safetensors" "$work/in.safetensors"
is "0 0 of 3 tensors differ" "$status $(cat "$work/out")" "such files are compared"
echo '{"weight_map": {"w": "model-00001-of-00002.safetensors"}}' >"$work/model.safetensors.index.json"
psctl import --job digits "$work/model.safetensors.index.json"
[ "$status" -eq 3 ] && says err 'it is JSON and no safetensors file: an index of several files names them'
ok $? "an index of several files is said to be one"

printf 'name,age\nada,36\n' >"$work/people.csv"
psctl import --job digits "$work/people.csv"
[ "$status" -eq 3 ] && says err "people.csv: it is no safetensors file: it begins with the text 'name,age'"
ok $? "so is a text"
printf 'hi\n' >"$work/short"
psctl import --job digits "$work/short"
[ "$status" -eq 3 ] && says err "short: it is no safetensors file: it has 3 bytes, and no header"
ok $? "and a file that is shorter than a header"
psctl import --job digits "$work"
[ "$status" -eq 3 ] && says err ": it is a directory, where a file is expected"
ok $? "a directory is no file to import"

# ---- trace: files that are none ----

# no_trace SENTENCE STATUS TEXT FILE
no_trace() {
  psctl trace "$4"
  [ "$status" -eq "$2" ] && says err "^psctl: $4$3" && ! grep -q -- ':-1' "$work/err"
  ok $? "$1"
}
: >"$work/empty"
printf '{"traceEvents": [\n}' >"$work/cut"
gzip -c "$work/people.csv" >"$work/trace.gz"
echo '{}' >"$work/object"
no_trace "a trace that is not there is said without a line of it" 1 ": No such file or directory" "$work/none"
no_trace "one that is a directory, too" 1 ": Is a directory" "$work"
no_trace "an empty one is said to be that" 2 ": it is empty" "$work/empty"
no_trace "a text is no JSON" 2 ":1:[0-9]*: it is no valid JSON" "$work/people.csv"
no_trace "and where JSON goes wrong is said" 2 ":2:[0-9]*: it is no valid JSON" "$work/cut"
no_trace "a compressed one is said to be that" 2 " is compressed with gzip: unpack it" "$work/trace.gz"
no_trace "other JSON is no trace" 2 ": it is no trace of a worker or a shard of psd, as PSD_TRACE_FILE" "$work/object"

# ---- bench ----

psctl bench --seconds 0.2 --block 4KiB
[ "$status" -eq 0 ] && has '^2 shards, variables of 4.00 KiB, 4 in flight$' && has '^push: [1-9][0-9,]*/s, .*/s; latency [0-9]+ us median' &&
  has '^pull: [1-9]' && says out 'job "psctl-bench" keeps 64.0 KiB of zeros'
ok $? "bench tells rates and latencies, and what it leaves"
psctl bench --seconds 0.2 --block 4KiB --in-flight 1 --json
python3 - "$work/out" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["command"] == "bench" and d["block_bytes"] == 4096 and d["in_flight"] == 1 and d["shards"] == 2
for side in (d["push"], d["pull"]):
    assert side["operations"] > 0 and 0 < side["p50_us"] <= side["p90_us"] <= side["p99_us"] <= side["max_us"]
EOF
ok $? "as JSON, again"
psctl variables --job psctl-bench --top 99 --json
python3 - "$work/out" <<'EOF'
import json, sys
top = json.load(open(sys.argv[1]))["top"]
assert len(top) == 16 and all(v["refused"] == 0 and v["pushes"] > 0 for v in top)
EOF
ok $? "the same variables are used again"
psctl jobs --job psctl-bench
has '^psctl-bench all 1 0 0 1 '
ok $? "and its worker has said goodbye"

PSD_TEST_MARK=$mark PSD_CLUSTER=local PSD_WORKERS=2 PSD_TASK=0 "$DIGITS" --strategy sync --epochs 9999 --data "$data" --svg '' \
  >"$work/worker" 2>&1 </dev/null &
worker=$!
trains() { "$PSCTL" jobs --job digits --json | grep -q '"live": 1'; }
within trains
psctl bench --seconds 0.1
[ "$status" -eq 3 ] && says err '1 worker trains on this cluster.*--yes'
ok $? "while workers train it is refused"
psctl bench --seconds 0.1 --yes
is 0 "$status" "unless it may"
kill "$worker"
wait "$worker" 2>/dev/null

# ---- restore ----

psctl restore "$work/models/one" --json
[ "$status" -eq 0 ] && python3 -c 'import json, sys
assert json.load(open(sys.argv[1])) == {"command": "restore", "path": sys.argv[2], "shards": 2}' "$work/out" "$work/models/one"
ok $? "a restore is told as JSON"
psctl restore "$work/models/none" --json
[ "$status" -ne 0 ] && python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["command"] == "restore" and d["error"]["text"]' "$work/out"
ok $? "and so is one that fails"

# ---- a shard that is gone ----

shard=$(for pid in $(marked); do words "$pid" | grep -qx -- '--shard=1' && echo "$pid"; done)
# A checkpoint of a clock that no worker reaches waits until the shard is killed; an export asks while it is stopped.
"$PSCTL" checkpoint --job digits --at-clock 1000000 "$work/models" >"$work/checkpoint" 2>&1 </dev/null &
waiting=$!
waits() { "$PSCTL" blocked | grep -q checkpoint; }
within waits
ok $? "a checkpoint waits for its clock"
start=$SECONDS
kill -STOP "$shard"
psctl export "$work/gone.safetensors" --job digits
[ "$status" -eq 1 ] && says err '^psctl: .*shard 1 at .* 5000 ms' && [ $((SECONDS - start)) -lt 60 ]
ok $? "an export does not wait ten minutes for a shard that hangs"
kill -KILL "$shard"
wait "$waiting"
status=$?
cp "$work/checkpoint" "$work/err"
[ "$status" -eq 1 ] && says err '^psctl: shard 1 at .*: lost the connection: .*; it was not back within 5.0 s' &&
  [ $((SECONDS - start)) -lt 60 ] && [ ! -e "$work/models/clock-1000000" ]
ok $? "nor a checkpoint for one that has died meanwhile"

eval "$stop" 2>/dev/null
within none_marked
done_testing
