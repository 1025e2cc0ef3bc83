#!/usr/bin/env bash
# Layout is what clang-format makes of .clang-format. Other versions differ in places, so only Debian 12's is asked.
# Prints TAP.
set -uo pipefail

root=${PSD_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
version=14
rooms=(server client common tests)

if ! clang-format --version 2>/dev/null | grep -q "version $version\."; then
  echo "1..1"
  echo "ok 1 - each file looks as clang-format has it # SKIP clang-format $version is not installed"
  exit 0
fi

cd "$root" || exit 1
failures=0
number=0
echo "1..${#rooms[@]}"
for room in "${rooms[@]}"; do
  number=$((number + 1))
  if found=$(find "$room" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cu' \) -print0 |
    xargs -0 clang-format --dry-run -Werror 2>&1); then
    echo "ok $number - each file of $room looks as clang-format has it"
  else
    echo "not ok $number - each file of $room looks as clang-format has it"
    failures=$((failures + 1))
    grep -F ': error:' <<<"$found" | sed 's/^/# /' | head -n 40
  fi
done
exit $((failures > 0))
