#!/usr/bin/env bash
# deploy/drill.sh: it succeeds where psd keeps its promises, and reports where it does not. Prints TAP; tap.sh says
# which executables are used.
#
# Helpers are called by name (SC2317); scripts written for others expand there (SC2016).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
mkdir "$work/bin" "$work/disk" "$work/liars"
ln -s "$PSD_BIN" "$work/bin/psd"
ln -s "$PSCTL" "$work/bin/psctl"
ln -s "$PSRUN" "$work/bin/psrun"
train=("$DIGITS" --svg '' --epochs 5 --data "$source/client/examples/data/digits")

drill_options=()
# drill PATH [WORKER...]
drill() {
  PSD_TEST_MARK=$mark PATH="$1:$PATH" "$source/deploy/drill.sh" --disk "$work/disk" --memory 128MiB "${drill_options[@]}" -- "${@:2}" \
    >"$work/out" 2>"$work/err" </dev/null
}
left() {
  ls "$work/disk"
  within none_marked || marked
}

drill "$work/bin" "${train[@]}"
is 0 $? "the drill goes well"
is 4 "$(grep -c 'the model is the same$\|is refused: the model is the same$' "$work/out")" "in all its parts"
is "" "$(left)" "and leaves nothing"

drill "$work/bin" false
is 1 $? "a worker that fails is no drill"
is "" "$(left)" "and leaves nothing, either"

drill_options=(--timeout 1s)
drill "$work/bin" sleep 1000
[ $? -eq 1 ] && says err '^drill: the training has not ended after 1s (--timeout)$'
ok $? "a training without an end is ended, which is said"
is "" "$(left)" "and leaves nothing"
drill_options=()
printf '#!/bin/sh\nexec sleep 1000\n' >"$work/liars/psd"
chmod +x "$work/liars/psd"
sed 's/^start_s=.*/start_s=1/' "$source/deploy/drill.sh" >"$work/impatient.sh"
PSD_TEST_MARK=$mark PATH="$work/liars:$work/bin:$PATH" bash "$work/impatient.sh" --disk "$work/disk" -- true >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && says err '^drill: shard 0 has not started after 1 s$'
ok $? "so is a start"
rm "$work/liars/psd"
mkdir "$work/empty"
PATH=$work/empty "$BASH" "$source/deploy/drill.sh" -- true >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && says err '^drill: psd is not in PATH'
ok $? "programs that are not there are named"

# liar WORDS: a psctl that does nothing for this command.
liar() {
  printf '#!/bin/sh\n[ "$1" = %s ] && exit 0\nexec %s "$@"\n' "$1" "$work/bin/psctl" >"$work/liars/psctl"
  chmod +x "$work/liars/psctl"
}
liar save
drill "$work/liars:$work/bin" "${train[@]}"
is 1 $? "a save that did not happen is noticed"
says err 'power loss after a save: the model is another one\|shard 0 was not rebuilt\|no checkpoint'
ok $? "and which it was is said"
liar restore
drill "$work/liars:$work/bin" "${train[@]}"
is 1 $? "and so is a restore"
is "" "$(left)" "after all of which nothing is left"

"$source/deploy/drill.sh" --help >"$work/out" && says out '^usage: deploy/drill.sh'
ok $? "it explains itself"
"$source/deploy/drill.sh" --nonsense >"$work/out" 2>"$work/err"
is 2 $? "and refuses what it does not know"

done_testing
