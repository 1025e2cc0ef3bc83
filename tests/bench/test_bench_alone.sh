#!/usr/bin/env bash
# The bench is built where Check is not installed: it measures psd on machines where nobody runs tests. Configures such a
# build; prints TAP.
set -uo pipefail

source=${PSD_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
build=${PSD_BUILD_DIR:-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failed=0

ok() { # RESULT SENTENCE
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    failed=1
    tail -n 30 "$work/out" 2>/dev/null | sed 's/^/# /'
  fi
}

# A machine without Check, as meson sees it: neither pkg-config nor CMake knows it.
real=$(command -v pkg-config) || real=false
cat >"$work/pkg-config" <<END
#!/bin/sh
for word; do
  if [ "\$word" = check ]; then
    exit 1
  fi
done
exec "$real" "\$@"
END
chmod +x "$work/pkg-config"

# configure NAME [OPTION...]: and its targets, one a line, are in $work/targets.
configure() {
  PKG_CONFIG=$work/pkg-config CMAKE=false meson setup "$work/$1" "$source" -Dcuda=disabled "${@:2}" >"$work/out" 2>&1 &&
    ninja -C "$work/$1" -t targets all >"$work/targets" 2>>"$work/out"
}
built() { grep -q "^$1: " "$work/targets"; }

configure auto
ok $? "without Check the tree is configured"
built tests/bench/bench
ok $? "with the bench"
! built tests/system/test_daemon && ! built tests/bench/test_figures
ok $? "and without the tests"
configure disabled -Dtests=disabled && ! built tests/bench/bench
ok $? "tests that are disabled leave the bench out"
configure enabled -Dtests=disabled -Dbench=enabled && built tests/bench/bench
ok $? "unless it is asked for"

# What it was compiled from here, as the compiler noted it.
ninja -C "$build" -t deps 2>"$work/out" |
  awk '/^tests\/bench\/(libbench_parts\.a|bench)\.p\// { object = $1; objects++; next }
       /^[^ ]/ { object = "" }
       object && /\/check\.h$/ { print object " includes " $1 }
       END { if (!objects) print "nothing is known of the bench" }' >"$work/out"
[ ! -s "$work/out" ]
ok $? "no file of the bench includes Check's header"

echo "1..$number"
exit "$failed"
