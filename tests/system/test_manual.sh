#!/usr/bin/env bash
# The programs' own documentation: --help, manual pages and completion come from one table, so all must agree; the pages
# are read by mandoc and groff, the completions tried in bash and zsh. Prints TAP.
#
# Helpers are called by name (SC2317).
# shellcheck disable=SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

programs=("$PSD_BIN" "$PSCTL" "$PSRUN")

# try COMMAND...: its output explains a failure.
try() { "$@" >"$work/out" 2>"$work/err" </dev/null; }

# silent COMMAND...: it succeeds and prints nothing.
silent() { try "$@" && [ ! -s "$work/out" ] && [ ! -s "$work/err" ]; }

# lint SENTENCE TOOL COMMAND...: silent, where there is such a tool.
lint() {
  local sentence=$1 tool=$2
  shift 2
  if command -v "$tool" >/dev/null; then
    silent "$@"
    ok $? "$sentence"
  else
    skip "$sentence" "no $tool here"
  fi
}

# The options read are those of --help.
same_options() {
  sort -u >"$work/others"
  try diff "$work/options" "$work/others"
}

for program in "${programs[@]}"; do
  name=${program##*/}
  {
    "$program" --help >"$work/$name.help"
    "$program" --man >"$work/$name.man"
    "$program" --completion=bash >"$work/$name.bash"
    "$program" --completion=zsh >"$work/_$name"
  } 2>"$work/err"
  [ ! -s "$work/err" ] && [ -s "$work/$name.help" ]
  ok $? "$name tells of itself"
  try "$program" --version
  is "$name $(sed -n "s/^ *version: '\(.*\)',\$/\1/p" "${PSD_SOURCE_DIR:-$here/../..}/meson.build" | head -n 1)" \
    "$(cat "$work/out")" "$name --version is one line"
  try "$program" --nonsense
  [ $? -eq 2 ] && says err "^$name: unknown option '--nonsense'; $name --help lists them\$"
  ok $? "$name refuses an unknown option with status 2"

  sed -n 's/^  \(--[a-z-]*\).*/\1/p' "$work/$name.help" | sort >"$work/options"
  [ "$(wc -l <"$work/options")" -gt 5 ]
  ok $? "$name --help lists options"
  tr -d '\134' <"$work/$name.man" | sed -n 's/^fB\(--[a-z-]*\)fR.*/\1/p' | same_options
  ok $? "and its manual page lists the same"
  grep -oE -- '--[a-z-]+' "$work/$name.bash" | grep -v '^--completion$' | same_options
  ok $? "and so does its completion for bash"
  sed -n "s/^ *'\**\(--[a-z-]*\).*/\1/p" "$work/_$name" | same_options
  ok $? "and for zsh"
  [ "$(awk 'length > 100' "$work/$name.help" | wc -l)" -eq 0 ]
  ok $? "no line of it is longer than 100 columns"

  lint "mandoc has nothing to say of it" mandoc mandoc -T lint -W warning "$work/$name.man"
  lint "nor has groff" groff groff -man -ww -z -T utf8 "$work/$name.man"
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS ENVIRONMENT 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
    grep -qx "\\.SH $section" "$work/$name.man" || echo "$section"
  done >"$work/out"
  [ ! -s "$work/out" ]
  ok $? "it has its sections"
  lint "shellcheck accepts its completion" shellcheck shellcheck --shell=bash "$work/$name.bash"
done

# ---- bash ----

# completes WANTED WORD...: after these words, of which the last is being written, bash offers WANTED.
completes() {
  local wanted=$1 got
  shift
  # shellcheck disable=SC2016
  got=$(cd / && bash -c '. "$0/$1.bash" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && "_$1" && echo "${COMPREPLY[*]}"' \
    "$work" "$@" 2>"$work/err") || got="(failed)"
  echo "$got" >"$work/out"
  is "$wanted" "$got" "bash: $(printf '%s ' "${@:1:$#-1}")[${*:$#}]"
}

completes "ping" psctl pi
completes "ping" psctl --timeout 5s pi
completes "ping" psctl --timeout = 5s pi
completes "" psctl --timeout pi
completes "" psctl status pi
completes "--count" psctl ping --cou
completes "" psctl status --cou
completes "--timeout" psctl status --tim
completes "--version" psd --ver
completes "" psd word
completes "error warning info debug" psd --log-level ''
completes "error warning info debug" psd --log-level =
completes "debug" psd --log-level = d
completes "/usr" psd --live-dir /us
completes "$work/psd.help" psd --config = "$work/psd.h"
completes "" psd --live-dir "$work/psd.h"
completes "none" psd --listen n
completes "auto reno cubic bbr" psd --tcp-congestion ''
completes "learning_rate= learning_rate_power=" psctl set learn
completes "schedule=" psctl set --job train momentum = 0.5 sch
completes "" psctl set learning_rate =
completes "" psctl jobs learn
completes "--top" psctl variables --top
completes "diff" psctl snapshot di
completes "$work/psd.help" psctl snapshot diff "$work/psd.h"
completes "$work/psd.help" psctl restore "$work/psd.h"
completes "refused" psctl variables --by re
completes "mapfile" psrun --shards 2 mapf
completes "mapfile" psrun --shards 2 -- mapf
completes "/usr" psrun --unix -- cat /us
completes "" psrun cat --shard
completes "--shards" psrun --shards 2 --shard

# ---- zsh ----

# A shell in a terminal of its own; each program is a function there that prints its arguments.
typed() {
  zsh -f -c '
    zmodload zsh/zpty
    zpty shell "PS1= PS2= RPS1= TERM=dumb zsh -f -i"
    zpty -w shell "fpath=(\"$1\" \$fpath); autoload -Uz compinit; compinit -D -u; unsetopt zle_bracketed_paste beep
      psd() { echo \"GOT\" \"\$*\" END }; psctl() { psd \$@ }; psrun() { psd \$@ }; echo READ\\Y"
    zpty -r shell text "*READY*"
    zpty -w -n shell "$2"$'"'\\t\\n'"'
    zpty -r shell text "*GOT*END*"
    text=${text##*GOT }
    echo ${text% END*}
  ' zsh "$work" "$1" 2>"$work/err"
}

# offers WANTED LINE: zsh makes WANTED of the line and a tab.
offers() {
  if ! command -v zsh >/dev/null; then
    skip "zsh: $2[tab]" "no zsh here"
    return
  fi
  is "$1" "$(typed "$2")" "zsh: $2[tab]"
}

offers "ping" "psctl pi"
offers "--count" "psctl --cou"
offers "set momentum=" "psctl set mom"
offers "--tcp-congestion=bbr" "psd --tcp-congestion=b"
offers "--timeout 5s ping" "psctl --timeout 5s pi"
offers "--log-level=debug" "psd --log-level=d"
offers "--live-dir /usr" "psd --live-dir /us"
offers "--keep-servers" "psrun --keep"
offers "--shards 2 /bin/mkfifo" "psrun --shards 2 /bin/mkfif"
offers "--unix -- cat --number-nonblank" "psrun --unix -- cat --number-nonbl"

done_testing
