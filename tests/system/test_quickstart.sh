#!/usr/bin/env bash
# deploy/quickstart.sh, the README's first command: run against the build that is there, and against tools that fail.
# Then deploy/packages.sh against an apt that only records its calls. Prints TAP; tap.sh says which executables are
# used.
#
# The programs that stand in for others expand their own variables (SC2016); helpers are called by name (SC2317).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
unset PSD_BIN TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER

# A directory of its own, where build/ is the one that is being tested: the script goes by its own path.
place=$work/psd
mkdir -p "$place" "$work/bin"
cp -r "$source/deploy" "$place/deploy"
ln -s "$(realpath "$source/client")" "$place/client"
ln -s "$(realpath "${PSD_BUILD_DIR:-$build}")" "$place/build"
cd "$place" || exit 1

run() {
  PSD_TEST_MARK=$mark ./deploy/quickstart.sh "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

# ---- it trains ----

run --no-install --epochs 3 --strategy sync --svg "$work/loss.svg"
is 0 "$status" "it builds what is missing, starts a cluster, trains, and ends with 0"
says out '^worker 0 | 3 workers, 2 shards, parameter_server sync(3 of 3), adam:'
ok $? "on 2 shards with 3 workers, as it was told"
says out '^worker 0 | epoch 3/3 .* 100% .*examples/s .*loss .*accuracy .*age '
ok $? "with a line of progress"
says out '^worker 0 | held-out accuracy  [0-9.]* %, [0-9]* of 300 images$' &&
  says out '^worker 0 | time  *[0-9.]* s, [0-9]* examples/s$' &&
  says out '^worker 0 | pushed  *[0-9.]* [KM]iB by all workers$' && says out '^worker 0 | pulled  *[0-9.]* [KM]iB$'
ok $? "accuracy, time and traffic are summed up"
says out '^worker 0 | ages ' && says out '^worker 0 |  *0  100.0 %  '
ok $? "with a histogram of ages: in sync all are 0"
is "$work/loss.svg" "$(sed -n 's/^worker 0 | loss curve  *//p' "$work/out")" "the plot's path is printed"
grep -q '<svg' "$work/loss.svg" && grep -q '</svg>' "$work/loss.svg"
ok $? "and the plot is there"
none_marked
ok $? "and nothing is left running"
says err '^Training with 3 workers on 2 shards \.\.\.$' && ! says err '^Installing\|^Configuring\|^Building\|^  '
ok $? "what runs is said, and nothing of what is there already"
[ "$(grep -n '^What to try next:$' "$work/out" | cut -d: -f1)" -gt "$(grep -n 'loss curve' "$work/out" | cut -d: -f1)" ]
ok $? "the end is what to try next"

mapfile -t tries < <(sed -nE 's/^  \.\/deploy\/quickstart\.sh (--[^ ]+( [^ ]+)*).*/\1/p' "$work/out" | grep -v DIR)
result=0
for try in "${tries[@]}"; do
  read -r -a words <<<"$try"
  run --no-install "${words[@]}" --epochs 1 --svg=
  [ "$status" -eq 0 ] || result=1
done
[ "${#tries[@]}" -ge 3 ] && [ "$result" -eq 0 ] && none_marked
ok $? "which is what can be done (${tries[*]})"

: >"$work/out" # what the last run has left says nothing of this one
run --no-install --epochs 100000 --svg= &
running=$!
within says out '^worker 0 | epoch '
for pid in $(marked); do
  if words "$pid" | grep -x './deploy/quickstart.sh' >/dev/null; then
    kill -TERM "$pid"
  fi
done
wait "$running"
within none_marked && says err 'stopping all on TERM' && ! says out 'What to try next'
ok $? "TERM ends the run, and all of it"

run --no-install --shards=3 --workers 4 --strategy ssp --bound 2 --optimizer momentum --epochs=2 --seed 7 --device cpu \
  --model conv --svg=
says out '^worker 0 | 4 workers, 3 shards, parameter_server ssp(2), momentum:.* 2 epochs .* seed 7$' &&
  says out '^worker 0 | network 8x8x1: conv .*, dense 10; [0-9]* weights$'
ok $? "--shards, --workers, --strategy, --bound, --optimizer, --epochs, --seed and --model change what it does"
[ "$status" -eq 0 ] && none_marked
ok $? "and it ends well"

run --no-install --strategy mirrored --replicas 3 --epochs 2 --svg=
[ "$status" -eq 0 ] && says out '^mirrored, 3 replicas, adam:' && says out '^held-out accuracy  [0-9.]* %' && none_marked
ok $? "a strategy of one process is trained in one, without shards"
run --no-install --strategy multi_worker_mirrored --workers 2 --epochs 2 --svg=
[ "$status" -eq 0 ] && says out '^worker 0 | multi_worker_mirrored, 2 workers, 2 replicas, adam:' &&
  says out '^worker 0 | held-out accuracy  [0-9.]* %' && says err 'no shards; 2 workers' && none_marked
ok $? "workers that all-reduce are trained without shards"

run --no-install --svg "$work/unaimed.svg"
accuracy=$(sed -n 's/^worker 0 | held-out accuracy  \([0-9]*\).*/\1/p' "$work/out")
[ "${accuracy:-0}" -ge 95 ]
ok $? "without options it reaches 95 % ($accuracy %)"

# ---- mistakes ----

run --no-install --strategy bananas
[ "$status" -ne 0 ] && says err 'bananas' && none_marked
ok $? "an unknown strategy is named, and nothing is left running"
run --workers
[ "$status" -eq 2 ] && says err '^quickstart: --workers: expected a value after it$'
ok $? "an option without its value is refused"
run --no-install --workers two
[ "$status" -eq 2 ] && says err "^quickstart: --workers: expected a whole number from 1, got 'two'$"
ok $? "a count that is none is refused before anything is built"
run --help
[ "$status" -eq 0 ] && says out '--strategy NAME' && says out '--no-install'
ok $? "--help lists the options"

# ---- a tree that is not built ----

# tool NAME BODY: a program that stands in for another and notes how it was called.
tool() {
  printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$work/calls" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

rm "$place/build"
tool meson 'echo "a line of meson"; echo "no compiler here" >&2; exit 1'
tool ninja 'exit 0'
PATH=$work/bin:$PATH run --no-install
[ "$status" -eq 1 ] && says err '^no compiler here$' && says err "^quickstart: this failed: meson setup .*quickstart.log)"
ok $? "a step that fails is named, with what it said and where the rest is"
is "meson setup $place/build $place --buildtype=release" "$(cat "$work/calls")" "and nothing is tried after it"
tool meson 'mkdir -p "$2"; : >"$2/build.ninja"'
tool ninja 'echo "undefined reference"; exit 1'
PATH=$work/bin:$PATH run --no-install
[ "$status" -eq 1 ] && says err 'undefined reference' && says err '^Configuring ' && says err '^Building '
ok $? "a fresh tree is configured and then built"
says out . && [ -s "$work/out" ]
is 1 $? "and only failures are shown"
# Without the pause between two lines; the tool goes on when its line is there.
sed -i 's/^PROGRESS_LINE_S=.*/PROGRESS_LINE_S=0/' deploy/progress.sh
seen() { printf 'for i in $(seq 900); do grep -q "%s" "%s/err" && break; sleep 0.1; done' "$1" "$work"; }
tool ninja 'case " $* " in *" -n "*) exit 0 ;; esac
echo "[3/7] Compiling a.c"; '"$(seen '^  built 3 of 7$')"'; echo "[4/7] Compiling b.c"; exit 1'
PATH=$work/bin:$PATH run --no-install
[ "$status" -eq 1 ] && says err '^  built 3 of 7$'
ok $? "meanwhile lines say how far the build is"
mkdir "$work/bare"
for name in bash dirname mkdir env; do
  ln -s "$(command -v "$name")" "$work/bare/$name"
done
PATH=$work/bare run --no-install
[ "$status" -eq 1 ] && says err '^quickstart: meson is not installed; run this without --no-install$'
ok $? "--no-install installs nothing, and says what is missing"

# ---- packages ----

# Installed are the names in $work/installed; apt knows those in $work/known and installs them.
tool dpkg-query 'for name; do :; done; grep -qx "$name" "'"$work"'/installed" && echo "installed "'
tool apt-cache 'for name; do :; done; grep -qx "$name" "'"$work"'/known"'
tool apt-get 'case " $* " in
  *" update "*) cp "'"$work"'/mirror" "'"$work"'/known" ;;
  *" install "*) for name; do case $name in [!-]*) grep -qx "$name" "'"$work"'/known" && echo "$name" >>"'"$work"'/installed" ;; esac; done ;;
esac
[ ! -e "'"$work"'/slow" ] || { echo "dlstatus:2:61.5000:Retrieving file 2 of 3"; '"$(seen '^  61 % Retrieving file 2 of 3$')"'; }
[ ! -e "'"$work"'/broken" ]'
tool sudo '[ "$1" != -n ] || shift; exec "$@"'

# packages NAME...: install them with the tools above.
packages() {
  : >"$work/calls"
  TMPDIR=$work PATH=$work/bin:$PATH bash -c '. "$0/deploy/packages.sh"; packages_install "$@"' "$place" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

printf '%s\n' here >"$work/installed"
printf '%s\n' here listed >"$work/known"
printf '%s\n' here listed fresh >"$work/mirror"
packages here
is "0 0" "$status $(grep -c '^apt-get' "$work/calls")" "nothing is asked of apt when nothing is missing"
packages here listed
[ "$status" -eq 0 ] && grep -q '^apt-get .*install .* listed$' "$work/calls" && ! grep -q ' update' "$work/calls"
ok $? "what is missing is installed, and no more"
packages here listed fresh
is "0 update install" "$status $(sed -n 's/^apt-get.* \(update\|install\).*/\1/p' "$work/calls" | paste -sd' ')" \
  "lists that do not know a package are brought up to date first"
: >"$work/slow"
printf '%s\n' here >"$work/installed"
packages listed
[ "$status" -eq 0 ] && says err '^Installing listed \.\.\.$' && says err '^  61 % Retrieving file 2 of 3$'
ok $? "what is installed is said, and how far that is"
rm "$work/slow"
: >"$work/broken"
packages nowhere
[ "$status" -eq 1 ] && says err 'could not be installed.*apt-get install nowhere'
ok $? "a failure says what to do by hand"

done_testing
