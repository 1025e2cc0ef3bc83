# shellcheck shell=bash
# Helpers of the shell tests that call psctl over and over. To be sourced after tap.sh.
#
# Helpers are called by name; variables here are used by the scripts that source this file; $here, $work and $PSCTL are
# tap.sh's.
# shellcheck disable=SC2317,SC2034,SC2154

data=${PSD_SOURCE_DIR:-$here/../..}/client/examples/data/digits
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
export PSD_TOKEN=test:0123456789abcdef # of shards, workers and psctl

psctl() {
  "$PSCTL" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}

# has PATTERN: a line of the output, its columns one blank apart. (grep -q would end before the others have written all.)
has() { tr -s ' ' <"$work/out" | sed 's/^ //' | grep -E -- "$1" >/dev/null; }
