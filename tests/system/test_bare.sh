#!/usr/bin/env bash
# tests/bare.sh: in a Debian root with nothing installed README's first command trains the digits. That needs root, the
# network and PSD_TEST_ROOT, see roots.sh; the second one would be all tests. Prints TAP; tap.sh says the rest.
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=roots.sh
. "$here/roots.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
bare() {
  "$source/tests/bare.sh" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

bare --help
[ "$status" -eq 0 ] && says out '^usage: tests/bare.sh' && says out './deploy/quickstart.sh' && says out './tests/run.sh'
ok $? "it explains itself"
bare --nonsense
[ "$status" -eq 2 ] && says err "^bare.sh: unknown option '--nonsense'; --help lists them$"
ok $? "and refuses what it does not know"
bare --only everything
[ "$status" -eq 2 ] && says err "^bare.sh: --only: expected quickstart or tests, got 'everything'$"
ok $? "or half of it"
bare --root /nowhere
[ "$status" -eq 1 ] && says err '^bare.sh: '
ok $? "a root that is none is named, or why there can be none here"

root_wanted "README's first command trains the digits where nothing is installed"
TMPDIR=$work bare --root "$PSD_TEST_ROOT" --only quickstart
[ "$status" -eq 0 ] && says out 'held-out accuracy' && says out '^What to try next:$'
ok $? "README's first command trains the digits where nothing is installed"
says err '^Installing .*meson' && says err '^Building ' && says err '^  built [0-9]* of [0-9]*$' && says err '^Training '
ok $? "and says what it installs, builds and runs"
is "" "$(find "$work" -name 'psd-bare-*')" "nothing of it is left"

done_testing
