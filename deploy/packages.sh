# shellcheck shell=bash
# Which Debian packages psd needs, and how to get those that are missing. To be sourced:
#
#     . deploy/packages.sh
#     packages_install "${PACKAGES_BUILD[@]}"
#
# Nothing is downloaded when nothing is missing. Needs root or sudo then; asks no questions.

# shellcheck source-path=SCRIPTDIR source=progress.sh
. "$(dirname "${BASH_SOURCE[0]}")/progress.sh"

# To build and run.
export PACKAGES_BUILD=(meson ninja-build pkg-config gcc libc6-dev libuv1-dev libprotobuf-c-dev protobuf-c-compiler
  liblmdb-dev libopenblas-dev libjansson-dev libssl-dev zlib1g-dev uthash-dev libmicrohttpd-dev)

# To run what was built elsewhere.
export PACKAGES_RUN=(libuv1 libprotobuf-c1 liblmdb0 libopenblas0-pthread libjansson4 libssl3 zlib1g libmicrohttpd12)

# To make Debian packages as well (make-debs.sh).
export PACKAGES_DEBS=(build-essential debhelper)

# To run the tests as well: Check, the second compiler with its sanitizers' runtime, C++ for the public header, what judges
# layout and manual pages, the programs that tests call, what parses shell, by which a test finds those,
# and what the package for Python is made with and tested with.
export PACKAGES_TESTS=(check clang clang-format libclang-rt-dev g++ groff-base iproute2 openssl procps python3
  python3-cffi python3-numpy python3-pytest shfmt valgrind)

packages_say() { printf '%s\n' "$*" >&2; }

# Those of the packages that are not installed, one a line.
packages_missing() {
  local package
  for package in "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null) in
      *installed\ *) ;;
      *) echo "$package" ;;
    esac
  done
}

# Run a command as root.
packages_as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@" # may ask for the password
  else
    sudo -n "$@"
  fi
}

# A password is asked for before lines of progress are drawn.
packages_may_ask() { [ "$(id -u)" -eq 0 ] || [ ! -t 0 ] || sudo -v; }

packages_apt() {
  packages_as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Dpkg::Use-Pty=0 -o APT::Status-Fd=1 -q -y "$@"
}

# True when apt's lists know every one of the packages.
packages_known() {
  local package
  for package in "$@"; do
    if ! apt-cache show --no-all-versions "$package" >/dev/null 2>&1; then
      return 1
    fi
  done
}

# The lists may be missing (a fresh container) or too old (what they name is gone from the mirror).
packages_get() {
  if packages_known "$@" && packages_apt install --no-install-recommends "$@"; then
    return 0
  fi
  packages_apt update && packages_apt install --no-install-recommends "$@"
}

# Install those that are missing. Fails with a sentence.
packages_install() {
  local missing log
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    packages_say "This is not Debian: nothing is installed. Needed are what Debian calls: $*"
    return 0
  fi
  mapfile -t missing < <(packages_missing "$@")
  if [ "${#missing[@]}" -eq 0 ]; then
    return 0
  fi
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    packages_say "These packages are missing and there is no sudo here; as root, run: apt-get install ${missing[*]}"
    return 1
  fi
  packages_say "Installing ${missing[*]} ..."
  log=$(mktemp)
  if ! packages_may_ask || ! progress_run "$log" progress_of_apt packages_get "${missing[@]}"; then
    grep -vE '^(dl|pm)status:' "$log" | tail -n 20 >&2
    packages_say "The packages could not be installed (is there a network, and may this user use sudo?). By hand:" \
      "apt-get update && apt-get install ${missing[*]}; what apt said is in $log"
    return 1
  fi
  rm -f "$log"
}
