#!/usr/bin/env bash
# The files of `meson install`, and that they are enough: programs outside the tree are built with nothing but
# pkg-config's answer and run under the installed tools. Prints TAP; tap.sh says which executables are used.
#
# Helpers are called by name (SC2317); flags are split into words (SC2046, SC2086); the documents' ticks are no command
# (SC2016).
# shellcheck disable=SC2016,SC2046,SC2086,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
cc=${CC:-cc}
cxx=$(command -v c++ || command -v g++ || command -v clang++)
unset PSD_BIN TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER

# try COMMAND...: its output explains a failure.
try() { "$@" >"$work/out" 2>"$work/err" </dev/null; }

try meson install -C "${PSD_BUILD_DIR:-$build}" --no-rebuild --destdir "$work/root"
ok $? "meson installs"
pc=$(find "$work/root" -name psclient.pc)
prefix=$work/root$(sed -n 's/^prefix=//p' "$pc")
libdir=$(dirname "$(dirname "$pc")")
library=$libdir/libpsclient.so

# ---- what is there ----

# there SENTENCE PATH...: each path below the prefix is a file.
there() {
  local sentence=$1 path missing=
  shift
  for path in "$@"; do
    [ -f "$prefix/$path" ] || missing+=" $path"
  done
  is "" "$missing" "$sentence"
}

there "the programs are there" bin/psd bin/psctl bin/psrun
public=(psclient.h ps_admin.h ps_assign.h ps_checkpoint.h ps_client.h ps_cluster.h ps_compress.h ps_compressor.h
  ps_data.h ps_device.h ps_device_group.h ps_err.h ps_group.h ps_network.h ps_op.h ps_optimizer.h ps_reducer.h ps_strategy.h
  ps_tensors.h ps_timeline.h ps_variable.h)
there "the public headers are there" "${public[@]/#/include/psclient/}"
is "$(printf '%s\n' "${public[@]}" | sort)" "$(find "$prefix/include" -type f -printf '%f\n' | sort)" "and no others"
there "the units are there, with examples of their configuration" lib/systemd/system/{psd@.service,psd@.socket,psd-http@.socket,psd.target,run-psd.mount} \
  lib/sysusers.d/psd.conf lib/tmpfiles.d/psd.conf share/psd/psd.{conf,default}
is "ExecStart=$(sed -n 's/^prefix=//p' "$pc")/bin/psd" "$(grep -o '^ExecStart=[^ ]*' "$prefix/lib/systemd/system/psd@.service")" \
  "and they start the psd that was installed"
there "their manual pages are there" share/man/man8/psd.8 share/man/man1/psctl.1 share/man/man1/psrun.1
there "the library's manual pages are there, and the reference for browsers" share/man/man7/psclient.7 \
  share/man/man3/ps_client_open.3 share/man/man3/ps_strategy_run.3 share/doc/psd/html/psclient.html
there "and the completions of the programs" share/bash-completion/completions/{psd,psctl,psrun}.bash \
  share/zsh/site-functions/_{psd,psctl,psrun}
is "" "$(find "$prefix/share/man" "$prefix/share/bash-completion" "$prefix/share/zsh" -type f -empty)" "and none is empty"
data=share/psd/examples/data/digits
there "the digits are there, with who made them" $data/README.md $data/{train,t10k}-{images-idx3,labels-idx1}-ubyte
[ -L "$library" ] && [ -e "$library" ] && [ -e "$library.0" ]
ok $? "the library is there under its names"

for tool in psd psctl psrun; do
  try "$prefix/bin/$tool" --version
  ok $? "installed $tool runs"
done

# ---- what the library shows ----

# A sanitized library needs its runtime in every program that links it, and exports the sanitizer's own names.
sanitized() { [ -n "$(nm -D "$library" | grep -E '__(asan|tsan|ubsan|msan)_')" ]; }

exported=$(nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | grep -vE '^__(asan|odr_asan|tsan|ubsan|sancov)' | sort)
is "" "$(grep -v '^ps_' <<<"$exported")" "the library exports names that begin with ps_ only"
declared=$(cat "${public[@]/#/$prefix/include/psclient/}" | tr '\n' ' ' | grep -oE 'PS_API [^;(]*\(' | sed 's/($//; s/.*[ *]//' |
  grep '^ps_' | sort -u)
is "" "$(comm -3 <(echo "$declared") <(echo "$exported"))" "and these are the functions that the headers declare"

# ---- the workers of the documents ----

# shown DOCUMENT PROGRAM: the block of C with a main in one is the other.
shown() {
  awk '/^```c$/ { inside = 1; block = ""; next }
    /^```$/ { if (inside && block ~ /\nmain\(void\)\n/) printf "%s", block; inside = 0 }
    inside { block = block $0 "\n" }' "$source/$1" >"$work/shown.c"
  try diff "$work/shown.c" "$source/tests/system/$2"
  ok $? "the worker of $1 is $2"
}
shown README.md short_worker.c
shown client/README.md thirty_lines.c

# ---- programs outside the tree ----

export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
try pkg-config --cflags --libs psclient
ok $? "pkg-config knows psclient"
is "$(sed -n "s/^ *version: '\(.*\)',\$/\1/p" "$source/meson.build" | head -n 1)" "$(pkg-config --modversion psclient)" \
  "and its version is the project's"
flags=$(pkg-config --cflags --libs psclient)
is "" "$(tr ' ' '\n' <<<"$flags" | grep -- '^-l' | grep -vx -- '-lpsclient')" "who links it needs no other library by name"
mkdir "$work/apart" && cd "$work/apart" || exit 1

# compiled SENTENCE COMMAND...: no errors and no output.
compiled() {
  local sentence=$1
  shift
  try "$@" && [ ! -s "$work/err" ]
  ok $? "$sentence"
}

for header in "${public[@]}"; do
  printf '#include <%s>\nint nothing;\n' "$header" >"alone.c"
  compiled "$header alone is C99" $cc -std=c99 -pedantic -Wall -Wextra -Werror -c alone.c -o alone.o $(pkg-config --cflags psclient)
done
{
  printf '#include <%s>\n' "${public[@]}" "${public[@]}"
  cat <<'END'
#include <cstdio>
int main()
{
    struct ps_error error;
    ps_cluster *cluster = nullptr;
    enum ps_err err = ps_cluster_from_list("127.0.0.1:1", 1, 0, &cluster, &error);

    if (err == PS_OK)
        std::printf("%s %s\n", ps_version(), ps_cluster_shard_address(cluster, 0));
    ps_cluster_free(cluster);
    return err;
}
END
} >all.cc
if [ -n "$cxx" ]; then
  compiled "all public headers together are C++11" "$cxx" -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only all.cc \
    $(pkg-config --cflags psclient)
else
  skip "all public headers together are C++11" "no C++ compiler here"
fi

export LD_LIBRARY_PATH=$libdir
cp "$source/tests/system/thirty_lines.c" worker.c
cp "$source/tests/system/short_worker.c" short.c
if sanitized; then
  skip "a C++ program links and runs" "the library is sanitized"
  skip "C programs link" "the library is sanitized"
  skip "and train under the installed psrun" "the library is sanitized"
else
  if [ -n "$cxx" ]; then
    try "$cxx" -std=c++11 all.cc -o all $flags && try ./all && says out '^[0-9.]* 127.0.0.1:1$'
    ok $? "a C++ program links and runs"
  else
    skip "a C++ program links and runs" "no C++ compiler here"
  fi
  compiled "README's worker links" $cc -std=c99 -pedantic -Wall -Wextra -Werror short.c -o short $flags
  PSD_TEST_MARK=$mark try "$prefix/bin/psrun" --workers 3 --psd-option --log-level=warning -- ./short
  is 0 $? "and trains under the installed psrun"
  is 3 "$(grep -c '^worker [0-2] | y = 3\.00 x +1\.00$' "$work/out")" "and prints what README says"
  compiled "the whole worker links" $cc -std=c99 -pedantic -Wall -Wextra -Werror worker.c -o worker $flags
  PSD_TEST_MARK=$mark try "$prefix/bin/psrun" --shards 2 --workers 3 -- ./worker
  is 0 $? "and trains, too"
  # y = 3 x0 - 2 x1 + 1: every worker prints its result.
  is 3 "$(grep -cE '^worker [0-2] \| loss 0\.0000[0-9]+, y = (2\.9|3\.0)[0-9]+ x0 -(1\.9|2\.0)[0-9]+ x1 \+(0\.9|1\.0)[0-9]+$' "$work/out")" \
    "and every worker finds the line"
  none_marked
  ok $? "and nothing is left running"
fi

done_testing
