#!/usr/bin/env bash
# Which files may include which: the picture of server/README.md, compared with the files that the compiler really read
# for each object. ninja keeps that list, with indirect includes. Then each header is compiled alone. Prints TAP.
set -uo pipefail

root=${PSD_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
build=${PSD_BUILD_DIR:-$root/build}
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failures=0

# ok RESULT SENTENCE; a failure shows the contents of $work/found.
ok() {
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    failures=$((failures + 1))
    sed 's/^/# /' "$work/found"
  fi
}

# "object file" a line, for all but the tests; files of the project are named from the root, generated ones from the
# build directory.
table() {
  ninja -C "$build" -t deps | awk -v prefix="$(realpath --relative-to="$build" "$root")/" -v root="$root/" '
    /^[^ ]/ { object = /\(VALID\)$/ && !/^tests\// ? $1 : ""; sub(/:$/, "", object); next }
    /^ / && object != "" {
      file = substr($0, 5)
      if (index(file, prefix) == 1)
        file = substr(file, length(prefix) + 1)
      else if (index(file, root) == 1)
        file = substr(file, length(root) + 1)
      print object, file
    }'
}
table >"$work/table"

# forbid SENTENCE OBJECTS FILES [OBJECTS [FILES]]: no object whose name matches reads a file whose name does, but for
# those of the last two. All are extended regular expressions for the whole name.
forbid() {
  awk -v objects="^($2)\$" -v files="^($3)\$" -v except="^(${4-none})\$" -v except_files="^(${5-none})\$" \
    '$1 ~ objects && $2 ~ files && $1 !~ except && $2 !~ except_files' "$work/table" >"$work/found"
  [ ! -s "$work/found" ]
  ok $? "$1"
}

# reads OBJECT FILE: the table knows it. A rule over an empty table would always hold.
reads() {
  echo "nothing says that $1 reads $2" >"$work/found"
  grep -qxE "[^ ]*/$1\.o [^ ]*/$2" "$work/table"
  ok $? "it is seen that $1 reads $2"
}

# Headers of the .c files of the archives that match, as one expression.
headers_of() {
  awk -v archives="^($1)/" '$1 ~ archives && $2 ~ /\.c$/ { sub(/\.c$/, ".h", $2); gsub(/\./, "\\.", $2); print $2 }' \
    "$work/table" | sort -u | paste -sd'|'
}

core='(common/core/libcommon_core|common/core/libkernels_[a-z0-9]+|server/core/libserver_core|client/core/libclient_core|client/core/libcollective_kernels_[a-z0-9]+)\.a\.p'
glue='(common/libcommon_glue|server/libserver_glue|server/libstore_lmdb|client/libclient_api|client/libclient_compute)\.a\.p'
tools='client/(tools|examples)/.*'

reads lmdb_store_lmdb.c lmdb.h
reads device_cpu_device_cpu.c cblas.h
reads net_conn.c uv.h
reads shard_shard.c shard_state.h
reads shards_core.c frame.h

forbid 'common includes neither server nor client' 'common/.*' '(server|client)/.*'
forbid 'server never includes client' 'server/.*' 'client/.*'
forbid 'client never includes server' 'client/.*' 'server/.*'
forbid 'nobody includes tests' '.*' 'tests/.*'
forbid 'command lines are for programs alone' "$core/.*|$glue/.*" '.*/cli/.*' 'server/libserver_glue\.a\.p/.*'
forbid 'the core includes no header of the glue' "$core/.*" "$(headers_of "$glue")"
forbid 'the core includes neither libuv, LMDB nor BLAS' "$core/.*" '.*/(uv|lmdb|cblas[a-z_0-9]*)\.h'
forbid 'the core includes no sockets, threads, polls or clocks' "$core/.*" \
  '/.*/(sys/socket|sys/un|netinet/in|arpa/inet|poll|sys/poll|sys/epoll|pthread|threads|fcntl|sys/mman|sys/time|sys/random)\.h' \
  'common/core/libcommon_core\.a\.p/auth_mac\.c\.o' # libcrypto's headers name threads
forbid 'the files of the LMDB store alone include lmdb.h' '.*' '.*/lmdb\.h' \
  'server/libstore_lmdb\.a\.p/lmdb_store_lmdb(_[a-z]+)?\.c\.o'
forbid 'the files of TLS alone include OpenSSL'"'"'s ssl.h' '.*' '.*/openssl/ssl\.h' \
  'common/libcommon_glue\.a\.p/net_tls(_[a-z]+)?\.c\.o'
forbid 'one file includes cblas.h' '.*' '.*/cblas[a-z_0-9]*\.h' 'client/libclient_compute\.a\.p/device_cpu_device_cpu\.c\.o'
forbid 'uv.h is for the glue and psrun' '.*' '.*/uv\.h' \
  "(common/libcommon_glue|server/libserver_glue|client/libclient_api|client/tools/libtools)\\.a\\.p/.*|server/psd\\.p/main\\.c\\.o|client/tools/psrun\\.p/.*"
forbid 'compute knows nothing of the network' 'client/libclient_compute\.a\.p/.*' \
  ".*/uv\\.h|common/net/.*|$(headers_of 'client/libclient_api\.a\.p')"
forbid 'tools and examples include only the public headers of the client' "$tools" 'client/.*' \
  'none' 'client/(include/psclient|tools|examples)/.*'

# ---- each header alone ----

# Not headers of their own: the one source of kernels, which each instruction set fills in before it includes it, and
# the optimizers, which are parts of it; and the operations of a device module, whose includer defines how kernels are
# run.
template='*_kernels.h'
operations='*operations.h'
parts='*/common/core/optimizer/rules/*'

# alone HEADER: it compiles as the only one, and a second time.
alone() {
  printf '#include "%s"\n#include "%s"\n' "$1" "$1" |
    $cc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I"$root" -I"$root/client/include/psclient" -I"$root/common/include/psclient" \
      -I"$build" -x c -
}

: >"$work/found"
headers=0
while IFS= read -r header; do
  headers=$((headers + 1))
  alone "${header#"$root/"}" 2>&1 | head -n 20 >>"$work/found"
done < <(find "$root/common" "$root/server" "$root/client" -name '*.h' ! -name "$template" ! -name "$operations" \
  ! -path "$parts")
[ ! -s "$work/found" ]
ok $? "each header compiles alone"
echo "$headers headers were found" >"$work/found"
[ "$headers" -gt 50 ]
ok $? "and there are many"

echo "1..$number"
exit "$((failures > 0))"
