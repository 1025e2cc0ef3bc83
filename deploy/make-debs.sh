#!/usr/bin/env bash
# Debian packages of this tree: psd (the daemon and its units), psd-tools (psctl, psrun), libpsclient0 and libpsclient-dev.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=packages.sh
. "$root/deploy/packages.sh"

out=$root/build/debs
install=yes

usage() {
  cat <<END
usage: deploy/make-debs.sh [options]

Install what the build needs (Debian 12; as root or through sudo), build the packages psd, psd-tools, libpsclient0 and
libpsclient-dev in a copy of the tree, and put them into build/debs.

  --out DIR      put them there instead
  --no-install   install nothing
  --help         print this

As root, on the machine that they are for: apt-get install ./build/debs/*.deb
END
}

while [ $# -gt 0 ]; do
  case $1 in
    --out)
      if [ $# -lt 2 ]; then
        echo "make-debs: --out: expected a value after it" >&2
        exit 2
      fi
      out=$2
      shift
      ;;
    --out=*) out=${1#*=} ;;
    --no-install) install=no ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "make-debs: unknown option '$1'; --help lists them" >&2
      exit 2
      ;;
  esac
  shift
done

if [ "$install" = yes ]; then
  packages_install "${PACKAGES_BUILD[@]}" "${PACKAGES_DEBS[@]}" || exit 1
fi
command -v dpkg-buildpackage >/dev/null || {
  echo "make-debs: dpkg-buildpackage is not installed; run this without --no-install" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/psd" && mkdir -p "$out"
tar -C "$root" --anchored --exclude='./.git' --exclude='./build*' -cf - . | tar -C "$work/psd" -xf -
mv "$work/psd/deploy/debian" "$work/psd/debian"

# No packages of symbols beside them, unless they are asked for.
export DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-noautodbgsym}
log=$out/make-debs.log
: >"$log"
echo "Building the packages in a copy of the tree (some minutes) ..." >&2
if ! progress_run "$log" progress_of_ninja env -C "$work/psd" dpkg-buildpackage --build=binary --no-sign --unsigned-changes; then
  tail -n 40 "$log" >&2
  echo "make-debs: the build failed; all of what it said is in $log" >&2
  exit 1
fi
for deb in "$work"/*.deb; do
  mv "$deb" "$out/"
  echo "$out/${deb##*/}"
done
