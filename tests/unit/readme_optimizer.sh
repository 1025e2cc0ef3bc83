#!/usr/bin/env bash
# The example of "Adding an optimizer" (common/core/optimizer/README.md) is a whole file: at the path that the README
# gives, with the row that it names, it compiles into every instruction set's kernels and computes as its head says.
set -uo pipefail

root=$PSD_SOURCE_DIR
read -ra cc <<<"${CC:-cc}" # may be "ccache cc"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

number=0 failures=0
ok() {
  number=$((number + 1))
  if [ "$1" = 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    sed 's/^/# /' "$work/out"
    failures=$((failures + 1))
  fi
}

cp -r "$root/common" "$work/common"
section=$(sed -n '/^## Adding an optimizer$/,$p' "$root/common/core/optimizer/README.md")
# shellcheck disable=SC2016 # Markdown's fences
sed -n '/^```c$/,/^```$/p' <<<"$section" | sed '1d;$d' >"$work/common/core/optimizer/rules/lion.h"
row=$(grep -o 'X([A-Z]*, [a-z]*, [0-9]*)' <<<"$section")
sed -i "s/^\( *X([A-Z].*)\)\$/\1 \\\\\n    $row/" "$work/common/include/psclient/ps_optimizer.h"
awk -F '[(, ]+' '/^ *X[(]/ { print "#include <common/core/optimizer/rules/" $4 ".h>" }' \
  "$work/common/include/psclient/ps_optimizer.h" >"$work/common/core/optimizer/optimizer_files.h"
grep -q 'rules/lion.h' "$work/common/core/optimizer/optimizer_files.h" >"$work/out" 2>&1
ok $? "the guide's row puts the file into the list"

cat >"$work/lion.c" <<'END'
#include <math.h>
#include <stdio.h>
#include "common/core/optimizer/optimizer_isa.h"
int
main(void)
{
    _Alignas(64) float w[32] = {1, 1, 1}, m[32] = {0.5f, -0.5f, 0}, g[3] = {1, 1, 0};
    struct optimizer_arrays a = {w, {m}};
    struct ps_optimizer o;
    struct optimizer_step s;
    const struct optimizer_kernels *k;
    char text[PS_OPTIMIZER_TEXT_MAX];

    if (ps_optimizer_parse("lion:learning_rate=0.25,beta1=0.75,beta2=0.5", &o, NULL) != PS_OK)
        return 1;
    ps_optimizer_describe(&o, text, sizeof text);
    puts(text);
    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        w[0] = w[1] = w[2] = 1, m[0] = 0.5f, m[1] = -0.5f, m[2] = 0;
        optimizer_prepare(&o, &(struct optimizer_when){.version = 1}, 1, &s);
        if (!k->update[o.kind](&s, 3, g, &a, &a, false))
            return 1;
        printf("%g %g %g, %g %g %g\n", w[0], w[1], w[2], m[0], m[1], m[2]);
    }
    return 0;
}
END

flags=(-std=gnu11 -D_GNU_SOURCE -O1 -ffp-contract=off -Wall -Wextra -Werror -I"$work" -I"$work/common/include/psclient")
isa=()
if [ "$(uname -m)" = x86_64 ]; then
  isa=(avx2:-mavx2 avx512:-mavx512f)
fi
objects=()
result=0
for one in plain: "${isa[@]}"; do
  name=${one%%:*} flag=${one#*:}
  "${cc[@]}" "${flags[@]}" ${flag:+"$flag"} -c "$work/common/core/optimizer/optimizer_$name.c" -o "$work/$name.o" >>"$work/out" 2>&1 ||
    result=1
  objects+=("$work/$name.o")
done
ok "$result" "the kernels compile with it"
"${cc[@]}" "${flags[@]}" "$work/lion.c" "${objects[@]}" \
  "$work"/common/core/{codec/isa,optimizer/{optimizer,optimizer_isa,optimizer_text},model/schedule,base/{text,nearest,number,ps_err,utf8,base}}.c \
  -lm -o "$work/lion" >"$work/out" 2>&1
ok $? "and so does all else"

# c = 0.75 * 0.5 + 0.25 = 0.625, sign 1; -0.375 + 0.25 = -0.125, sign -1; 0. m = 0.5 * 0.5 + 0.5 = 0.75; 0.25; 0.
"$work/lion" >"$work/out" 2>&1
ok $? "it runs"
head -1 "$work/out" | grep -qx 'lion:learning_rate=0.25,beta1=0.75,beta2=0.5'
ok $? "and is known by its name and parameters"
[ "$(sed 1d "$work/out" | sort -u)" = '0.75 1.25 1, 0.75 0.25 0' ]
ok $? "and computes its formula on every instruction set"

echo "1..$number"
exit "$((failures > 0))"
