#!/usr/bin/env bash
# The size of a variable's values and its cut are asked of common/core/model/cut.h and of the variable's kind, so that a
# kind with another cut has one place for each side. Looks at the source; prints TAP.
set -euo pipefail

cd "${PSD_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
number=0
failed=0

# rule NAME PATTERN EXCEPT PATH...: no line below these paths has it, but in files whose name matches EXCEPT.
rule() {
  local name=$1 pattern=$2 except=$3 found
  shift 3
  number=$((number + 1))
  found=$(grep -rnE --include='*.[ch]' "$pattern" "$@" | grep -vE "^[^:]*/($except):" || true)
  if [ -z "$found" ]; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    while IFS= read -r line; do echo "# $line"; done <<<"$found"
    failed=1
  fi
}

# local_optimizer has arrays of its own, which no shard sees.
rule bytes_of_values_are_asked_of_the_cut 'sizeof\(float\)' 'local_optimizer\.c' server client/core/shards
# checkpoint_sink has no variable, but the row of one.
rule a_shard_knows_runs_of_elements_in_its_dense_kind_alone \
  '(\.|->)cut\.(first|len|stride|size_class)|layout_(block|init|array)\(|->layout\b|v\.layout\b' \
  '(dense|checkpoint_sink|restore_rows)\.c' server
rule a_worker_knows_them_in_its_dense_kind_alone 'layout_(block|init|array)\(' '(var_dense|local_optimizer)\.c' \
  client/core/shards

echo "1..$number"
exit "$failed"
