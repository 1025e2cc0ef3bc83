# shellcheck shell=bash
# Lines for whoever waits while a long command runs. To be sourced:
#
#     . deploy/progress.sh
#     progress_run FILE progress_of_ninja ninja -C build
#
# What the command prints is appended to FILE, and shown nowhere else. On a terminal one line of standard error says how far
# it is, again and again in place; elsewhere there is a line now and then.

PROGRESS_LINE_S=10 # seconds from one line to the next, where it is no terminal

# In the background, so that the command has the terminal's signals; ends with the shell that has started it, too.
progress_watch() {
  local file=$1 text_of=$2 text shown='' next=$((SECONDS + PROGRESS_LINE_S))
  trap 'kill "${!:-}" 2>/dev/null; exit 0' TERM # with the pause, which would outlive it
  while kill -0 "$$" 2>/dev/null; do
    sleep 0.5 &
    wait "$!"
    text=$("$text_of" "$file")
    if [ -z "$text" ]; then
      continue
    elif [ -t 2 ]; then
      printf '\r\033[K  %.76s' "$text" >&2
    elif [ "$SECONDS" -ge "$next" ] && [ "$text" != "$shown" ]; then
      printf '  %s\n' "$text" >&2
      shown=$text next=$((SECONDS + PROGRESS_LINE_S))
    fi
  done
}

# progress_run FILE TEXT_OF COMMAND...: its status. TEXT_OF FILE prints how far it is, from what is in the file.
progress_run() {
  local file=$1 text_of=$2 watcher status=0
  shift 2
  progress_watch "$file" "$text_of" &
  watcher=$!
  "$@" >>"$file" 2>&1 || status=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  if [ -t 2 ]; then
    printf '\r\033[K' >&2
  fi
  return "$status"
}

# The last matching line of a file counts.
progress_of_ninja() { sed -nE 's/^\[([0-9]+)\/([0-9]+)\].*/built \1 of \2/p' "$1" | tail -n 1; }

# Of apt-get with -o APT::Status-Fd=1.
progress_of_apt() {
  local text
  text=$(sed -nE 's/^(dl|pm)status:.*:([0-9]+)(\.[0-9]*)?:(.*)$/\2 % \4/p' "$1" | tail -n 1)
  echo "${text:-apt asks which packages there are}"
}
