#!/usr/bin/env bash
# The examples of "Adding a layer" and "Adding a strategy" are whole files: at the paths that their README gives, with
# the rows that it names, they compile and work as described. The arguments are the project's static libraries.
set -uo pipefail

root=$PSD_SOURCE_DIR
read -ra cc <<<"${CC:-cc}" # may be "ccache cc"
libs=("$@")
read -ra link <<<"$(pkg-config --libs libuv libprotobuf-c openblas jansson zlib libssl libcrypto) -lm -ldl -pthread"
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

flags=(-std=gnu11 -D_GNU_SOURCE -O1 -ffp-contract=off -Wall -Wextra -Werror)

# put README FILE: the example of a README, where it says that it goes; nothing else may be there.
put() {
  mkdir -p "$work/$(dirname "$2")"
  [ ! -e "$root/$2" ] || return 1
  # shellcheck disable=SC2016 # Markdown's fences
  sed -n '/^```c$/,/^```$/p' "$root/$1" | sed '1d;$d' >"$work/$2"
}

# row README LIST HEADER: the README's row, behind the last one of a list in a copy of the header, which is found before the
# tree's own.
row() {
  local line
  line=$(grep -o "\`X([A-Za-z_]*[^\`]*)\`" "$root/$1" | head -n 1 | tr -d '`')
  mkdir -p "$work/$(dirname "$3")"
  awk -v list="#define $2" -v row="$line" '
    index($0, list) == 1 { inside = 1 }
    inside && !/\\$/ { print $0 " \\"; print "    " row; inside = 0; next }
    { print }' "$root/$3" >"$work/$3"
  [ -n "$line" ] && grep -qF "    $line" "$work/$3"
}

# build PROGRAM SOURCE...: sources of the tree are compiled again, since they read the list.
build() {
  local program=$1 object objects=() source
  shift
  : >"$work/out"
  for source in "$@"; do
    object=$work/$(tr / _ <<<"$source").o
    if [ -e "$work/$source" ]; then
      source=$work/$source
    else
      source=$root/$source
    fi
    "${cc[@]}" "${flags[@]}" -I"$work" -I"$work/client/include/psclient" -I"$root" -I"$root/client/include/psclient" \
      -I"$root/common/include/psclient" -I"$PSD_BUILD_DIR" -c "$source" -o "$object" >>"$work/out" 2>&1 || return 1
    objects+=("$object")
  done
  "${cc[@]}" "${objects[@]}" -Wl,--start-group "${libs[@]}" -Wl,--end-group "${link[@]}" -o "$work/$program" >>"$work/out" 2>&1
}

# ---- a layer ----

guide=client/network/layers/README.md
put $guide client/network/layers/shift.c && row $guide PS_LAYER_LIST client/include/psclient/ps_network.h
ok $? "a layer is a file and a row"
cat >"$work/client/try_layer.c" <<'END'
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "client/include/psclient/ps_network.h"

/* The gradient that a network with the layer computes, against differences of its loss. */
int
main(void)
{
    static const float x[2 * 2 * 3] = {0.5f, -1, 2, 1, 0.25f, -0.5f, -2, 1, 0.5f, 0.75f, -0.25f, 1};
    static const uint32_t labels[] = {0, 1};
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = 2, .dims = {2, 3}, .layer = layers, .rows_max = 2, .seed = 3};
    struct ps_batch batch = {.rows = 2, .x = x, .labels = labels};
    struct ps_network_result result, above, below;
    struct ps_error e;
    ps_device *device;
    ps_network *n;
    struct ps_var_spec var;
    char text[100];

    if (ps_network_parse("tanh, shift, dense 2", layers, &spec.layers, &e) != PS_OK ||
        ps_device_open("cpu", NULL, &device, &e) != PS_OK || ps_network_new(device, &spec, &n, &e) != PS_OK) {
        puts(e.text);
        return 1;
    }
    puts(ps_network_describe(n, text, sizeof text));
    ps_network_var_spec(n, 0, &var);
    printf("%s %d\n", var.name, (int)var.dims[0]);
    ps_network_initialize(n);
    if (ps_network_gradient(n, &batch, 1, 0, &result, &e) != PS_OK)
        return 1;
    for (int i = 0; i < 3; i++) {
        float *value = &ps_network_values(n)[0][i], gradient = ps_network_gradients(n)[0][i], was = *value;

        *value = was + 0.01f;
        if (ps_network_evaluate(n, &batch, &above, &e) != PS_OK)
            return 1;
        *value = was - 0.01f;
        if (ps_network_evaluate(n, &batch, &below, &e) != PS_OK)
            return 1;
        *value = was;
        if (!(fabs((above.loss - below.loss) / 0.02 - gradient) < 1e-3) || fabsf(gradient) < 1e-3f)
            printf("gradient %d is %g, not %g\n", i, gradient, (above.loss - below.loss) / 0.02);
    }
    ps_network_free(n);
    ps_device_close(device);
    return 0;
}
END
sources=()
for source in "$root"/client/network/*.c "$root"/client/network/layers/*.c; do
  sources+=("${source#"$root"/}")
done
build try_layer client/try_layer.c client/network/layers/shift.c "${sources[@]}"
ok $? "and compiles into a network"
"$work/try_layer" >"$work/out" 2>&1 && [ "$(cat "$work/out")" = $'2x3: tanh, shift, dense 2\nshift0/by 3' ]
ok $? "whose text, parameters and gradients are right"

# ---- a strategy ----

guide=client/strategy/README.md
put $guide client/strategy/dry_run.c && row $guide PS_STRATEGY_LIST client/include/psclient/ps_strategy.h
ok $? "a strategy is a file and a row"
cat >"$work/client/try_strategy.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "client/include/psclient/ps_strategy.h"

static enum ps_err
step(void *arg, struct ps_replica *r, struct ps_error *error)
{
    (void)arg;
    (void)error;
    r->gradients[0][0] = r->gradients[0][1] = 1;
    r->metrics[0] += 5;
    return PS_OK;
}

int
main(void)
{
    struct ps_strategy_options options = {.rows = 8, .batch = 4, .metrics = 1};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {2}, .init = {.kind = PS_INIT_ONES}};
    ps_strategy *s;
    struct ps_error e;
    uint64_t rows;
    double metric;

    if (ps_optimizer_by_name("sgd", &spec.optimizer, &e) != PS_OK ||
        ps_strategy_open("dry_run", &options, &s, &e) != PS_OK || ps_strategy_variable(s, &spec, &e) != PS_OK ||
        ps_strategy_start(s, &e) != PS_OK ||
        ps_strategy_run(s, 3, &(struct ps_strategy_calls){.step = step}, &e) != PS_OK ||
        ps_strategy_meet(s, &e) != PS_OK) {
        puts(e.text);
        return 1;
    }
    ps_strategy_totals(s, &rows, &metric);
    printf("step %d, rows %d, metric %g, w %g %g\n", (int)ps_strategy_step(s), (int)rows, metric,
           ps_strategy_values(s, 0)[0][0], ps_strategy_values(s, 0)[0][1]);
    ps_strategy_close(s);
    return 0;
}
END
build try_strategy client/try_strategy.c client/strategy/dry_run.c client/strategy/options.c
ok $? "and compiles"
"$work/try_strategy" >"$work/out" 2>&1 && [ "$(cat "$work/out")" = 'step 3, rows 12, metric 15, w 1 1' ]
ok $? "and counts steps without an update"

echo "1..$number"
exit "$((failures > 0))"
