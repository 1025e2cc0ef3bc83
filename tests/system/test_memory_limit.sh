#!/usr/bin/env bash
# psd in a control group with a memory limit, and shards that share a filesystem: what each takes as its own. Prints TAP.
# Root alone may make control groups.
#
# Helpers are called by name (SC2317).
# shellcheck disable=SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
LIMIT_MIB=400
dirs=$(mktemp -d "$(memory_dir)/psd-limit.XXXXXX")
group=''
trap 'rm -rf "$dirs"; cleanup; [ -z "$group" ] || rmdir "$group"' EXIT

# make_group: a group with the limit, of version 2 or 1.
make_group() {
  local name=psd-test-$$ way
  for way in "/sys/fs/cgroup/$name/memory.max" "/sys/fs/cgroup/memory/$name/memory.limit_in_bytes"; do
    if mkdir "${way%/*}" 2>/dev/null; then
      group=${way%/*}
      if [ -e "$group/cgroup.procs" ] && echo $((LIMIT_MIB << 20)) 2>/dev/null >"$way"; then
        return 0
      fi
      rmdir "$group"
      group=''
    fi
  done
  return 1
}

started() { says "$1" 'serves cluster='; }

# serve NAME OPTIONS...: psd, whose log is $work/NAME.
serve() {
  local name=$1
  shift
  : >"$work/$name"
  (
    if [ -n "$group" ]; then
      echo "$BASHPID" >"$group/cgroup.procs"
    fi
    PSD_TEST_MARK=$mark exec "$PSD_BIN" --listen none --unix "$work/$name.sock" --http none --live-dir "$dirs/$name" \
      "$@" >"$work/$name" 2>&1
  ) &
  pid=$!
  within started "$name"
}

# figure NAME WORD: what the first line of a log says.
figure() { sed -n "s/.*serves cluster=.* $2=\"\\{0,1\\}\\([^\"]*\\)\"\\{0,1\\} .*/\\1/p" "$work/$1" | cut -d' ' -f1; }

serve one --shards 1
first=$pid
whole=$(figure one max_mib)
serve two --shards 1
half=$(figure two max_mib)
[ "$half" -le $((whole * 11 / 20)) ]
ok $? "a second shard on the same filesystem takes half of what there is"
says two 'max_is="80 % of what its [a-z0-9]* has free, for 2 shards"'
ok $? "and says so at its start"
kill "$first" "$pid" && wait "$first" "$pid"
serve known --shards 4
[ "$(($(figure known max_mib) * 4 / 16))" -le "$((whole / 16))" ]
ok $? "one of four shards that are all on this host takes a quarter"
kill "$pid" && wait "$pid"

if ! make_group; then
  skip "under a memory limit the data, messages and gradients stay below it" "no control group with a limit can be made"
  done_testing
fi
serve limited --durable-dir none
[ "$(figure limited max_mib)" -lt "$LIMIT_MIB" ] && says limited 'max_is="the memory limit of its control group"'
ok $? "under a memory limit the data, messages and gradients stay below it"
kill "$pid" && wait "$pid"
serve given --durable-dir none --memory 1GiB
says given "above this process's memory limit"
ok $? "sizes above the limit are warned of"
kill "$pid" && wait "$pid"
done_testing
