# shellcheck shell=bash
# Helpers of the tests that are shell scripts. To be sourced; they print TAP.
#
# PSRUN_BIN, PSCTL_BIN, PSD_BIN and DIGITS_BIN name the executables; without them those of ../../build are used. Every
# process that a test starts with PSD_TEST_MARK=$mark carries that in its environment, so that leftover processes can be
# found wherever they are.

# Helpers are called by name and by traps; variables here are used by the scripts that source this file.
# shellcheck disable=SC2317,SC2034

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${PSD_BUILD:-$here/../../build}
PSRUN=${PSRUN_BIN:-$build/client/tools/psrun}
PSCTL=${PSCTL_BIN:-$build/client/tools/psctl}
DIGITS=${DIGITS_BIN:-$build/client/examples/digits/digits}
export PSD_BIN=${PSD_BIN:-$build/server/psd}
WITHIN=${PSD_TEST_WITHIN:-90} # seconds that anything waited for may take

work=$(mktemp -d)
mark="psd-test-$$-$RANDOM"
number=0
failures=0

# The directory for a shard's data: /dev/shm, where there is room for it (a container's often has 64 MiB), else /tmp.
memory_dir() {
  if [ -w /dev/shm ] && [ "$(df --output=avail -B1M /dev/shm | tail -n 1)" -ge 512 ]; then
    echo /dev/shm
  else
    echo /tmp
  fi
}

# Processes that carry the mark.
marked() { grep -slz "^PSD_TEST_MARK=$mark\$" /proc/[0-9]*/environ | cut -d/ -f3; }

none_marked() { [ -z "$(marked)" ]; }

# Poll until a command succeeds, or the time is up.
within() {
  local end=$((SECONDS + WITHIN))
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ]; then
      return 1
    fi
    sleep 0.02
  done
}

# The words of a process's command line, one a line.
words() { tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null; }

# Where psrun put the data of the shards that still run.
run_dirs() {
  local pid
  for pid in $(marked); do
    words "$pid" | sed -n 's/^--live-dir=\(.*\/psrun-[^/]*\)\/shard-[0-9]*\/live$/\1/p'
  done | sort -u
}

# End the processes that a failed test has left. Supervisors are spared at first: they clean up after their programs.
cleanup() {
  local pid dirs
  dirs=$(run_dirs)
  for pid in $(marked); do
    if ! words "$pid" | grep -x '@keep' >/dev/null; then
      kill -KILL "$pid" 2>/dev/null
    fi
  done
  WITHIN=5
  if ! within none_marked; then
    for pid in $(marked); do
      kill -KILL "$pid" 2>/dev/null
    done
  fi
  echo "$dirs" | xargs -r rm -rf
  rm -rf "$work"
}
trap cleanup EXIT

# ok RESULT SENTENCE: RESULT is 0 when it holds. The last output explains a failure.
ok() {
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    failures=$((failures + 1))
    sed 's/^/# out: /' "$work/out" 2>/dev/null
    sed 's/^/# err: /' "$work/err" 2>/dev/null
  fi
}

# must RESULT SENTENCE: the same for what everything after it needs: where it does not hold, the test is over.
must() {
  ok "$1" "$2"
  if [ "$1" -ne 0 ]; then
    echo "# the rest cannot be tried without it"
    done_testing
  fi
}

# skip SENTENCE WHY
skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

# is WANTED GOT SENTENCE
is() {
  if [ "$1" != "$2" ]; then
    echo "# wanted '$1', got '$2'"
  fi
  [ "$1" = "$2" ]
  ok $? "$3"
}

# says out|err PATTERN
says() { grep -q -- "$2" "$work/$1"; }

# The plan, and the script's status.
done_testing() {
  echo "1..$number"
  exit "$((failures > 0))"
}
