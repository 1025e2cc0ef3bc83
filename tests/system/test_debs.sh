#!/usr/bin/env bash
# The Debian packages: their contents agree with the tree; and they are built in a bare Debian root, which has what
# deploy/packages.sh names, and installed in another one, where systemd runs, upgraded under a shard that holds data,
# removed and purged. Most of it needs root, the network and PSD_TEST_ROOT, see roots.sh. Prints TAP.
#
# Helpers are called by name (SC2317); shells inside expand for themselves (SC2016).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=roots.sh
. "$here/roots.sh"
# shellcheck source-path=SCRIPTDIR source=booted.sh
. "$here/booted.sh"
source=${PSD_SOURCE_DIR:-$here/../..}
# shellcheck source-path=SCRIPTDIR source=../../deploy/packages.sh
. "$source/deploy/packages.sh"

unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
debian=$source/deploy/debian
try() { "$@" >"$work/out" 2>"$work/err" </dev/null; }

# ---- what they say ----

is "$(sed -n "s/^ *version: '\(.*\)',\$/\1/p" "$source/meson.build" | head -n 1)" "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$debian/changelog")" \
  "the packages' version is the project's"
needs() { sed -n '/^Build-Depends:/,/^[^ ]*$/s/^ \([a-z0-9-]*\).*/\1/p' "$debian/control" | grep -vE '^(debhelper-compat|dh-sequence-.*)$' | sort; }
is "$(printf '%s\n' "${PACKAGES_BUILD[@]}" | grep -vxE 'gcc|libc6-dev' | sort)" "$(needs)" \
  "they need what packages.sh installs for a build, and a compiler, which goes without saying"
# paragraph PACKAGE: what the control file says of it.
paragraph() { sed -n "/^Package: $1\$/,/^\$/p" "$debian/control"; }
# The Debian package profile-sync-daemon (main, section utils) has /usr/bin/psd.
[ "$(paragraph psd | grep -cx 'Conflicts: profile-sync-daemon')" -eq 1 ] && grep -qx usr/bin/psd "$debian/psd.install"
ok $? "the one with /usr/bin/psd conflicts with Debian's own package that has a file of that name"
paragraph psd | grep -q '^ The package profile-sync-daemon has a /usr/bin/psd' &&
  grep -q 'profile-sync-daemon' "$source/deploy/README.md"
ok $? "which its description says, and the guide"
for script in "$debian"/psd.{postinst,prerm,postrm}; do
  try sh -n "$script"
  ok $? "$(basename "$script") is a shell script"
done
try "$source/deploy/make-debs.sh" --help && says out '^usage: deploy/make-debs.sh'
ok $? "make-debs.sh explains itself"
try "$source/deploy/make-debs.sh" --nonsense
is 2 $? "and refuses what it does not know"

root_wanted "packages are built, installed, upgraded, removed and purged in Debian roots"

# ---- building ----

root_copy build
building=$root
mkdir "$root/src"
tar -C "$source" --anchored --exclude='./.git' --exclude='./build*' -cf - . | tar -C "$root/src" -xf -
root_exec HOME=/root /src/deploy/make-debs.sh --out /debs >"$work/out" 2>"$work/err"
ok $? "make-debs.sh builds them with nothing there but what it installs"
debs=$(cd "$root/debs" && echo *.deb)
is 4 "$(wc -w <<<"$debs")" "four of them: $debs"
if command -v lintian >/dev/null; then
  try lintian --allow-root --fail-on error,warning "$root"/debs/*.deb
  ok $? "lintian finds nothing wrong with them"
else
  skip "lintian finds nothing wrong with them" "it is not installed"
fi

# With another /usr/bin/psd there dpkg refuses, and names the package; apt takes that one away.
root_copy taken
cp -a "$building/debs" "$root/debs"
root_exec DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update && apt-get install -y --no-install-recommends profile-sync-daemon' \
  >"$work/out" 2>"$work/err"
ok $? "a root has Debian's profile-sync-daemon"
! root_exec dpkg --install "/debs/$(cd "$root/debs" && echo psd_*.deb)" >"$work/out" 2>"$work/err" &&
  says err 'psd conflicts with profile-sync-daemon'
ok $? "there dpkg refuses the package psd, and says why"
root_exec DEBIAN_FRONTEND=noninteractive sh -c 'apt-get install -y --no-install-recommends /debs/psd_*.deb && psd --version &&
  ! dpkg -s profile-sync-daemon | grep -q "^Status: install ok"' >"$work/out" 2>"$work/err"
ok $? "apt says that it removes the other one, and /usr/bin/psd is ours"
rm -rf "$root"
root=$building

root_exec DEBIAN_FRONTEND=noninteractive sh -c 'dpkg -i /debs/libpsclient*.deb && cc -std=c99 -Wall -Werror -o /worker \
  /src/tests/system/thirty_lines.c $(pkg-config --cflags --libs psclient) &&
  sed "s,client/include/psclient/,," /src/tests/system/bits.c >/bits.c && cc -o /bits /bits.c $(pkg-config --cflags --libs psclient)' >"$work/out" 2>"$work/err"
ok $? "a worker is built with libpsclient-dev"

# ---- installing ----

root_copy run
root_exec DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update && apt-get install -y --no-install-recommends "$@"' sh \
  systemd systemd-sysv dbus "${PACKAGES_RUN[@]}" libopenblas0 >"$work/out" 2>&1 # the last: any of several libraries
ok $? "in another root is what packages.sh names to run"
install -D "$building/bits" "$root/usr/local/bin/bits"
install -D "$building/worker" "$root/usr/local/bin/worker"
cp -a "$building/debs" "$root/debs"

# All files, but for the records of dpkg, ldconfig and logs. The user stays, as is Debian's rule.
everything() {
  (cd "$root" && find . -print) |
    grep -vE '^\./(proc|sys|dev|tmp|var/lib/dpkg|var/log|var/cache)/|^\./etc/(passwd|group|shadow|gshadow)-$' | sort
}
in_root() { root_exec DEBIAN_FRONTEND=noninteractive "$@" >"$work/out" 2>"$work/err"; }

everything >"$work/before"
in_root sh -c 'dpkg --install /debs/libpsclient0_*.deb /debs/psd_*.deb /debs/psd-tools_*.deb'
ok $? "and they need nothing else"
in_root sh -c 'psd --version && psctl --version && psrun --version && getent passwd psd && psd --config /etc/psd/psd.conf --check'
ok $? "programs, user and configuration are there"
PSD_TEST_MARK=$mark root_exec PSD_TEST_MARK="$mark" psrun --shards 2 --workers 3 -- worker >"$work/out" 2>"$work/err"
ok $? "psrun starts shards, and the worker trains on them"
is 3 "$(grep -c 'loss 0\.0000' "$work/out")" "every one of it"
in_root sh -c 'dpkg --remove psd-tools psd libpsclient0 && ! command -v psd && ls /etc/psd/psd.conf /etc/default/psd'
ok $? "removed, only the configuration is left"
in_root dpkg --purge psd-tools psd libpsclient0
ok $? "they are purged"
everything >"$work/after"
try diff "$work/before" "$work/after"
ok $? "and nothing of them is left"

# ---- with systemd ----

in_root sh -c 'dpkg --install /debs/libpsclient0_*.deb /debs/psd_*.deb /debs/psd-tools_*.deb'
start_boot
wait_boot "systemd runs where they are installed, and no unit has failed"
inside sh -c '! systemctl is-enabled psd.target && ! readlink /proc/[0-9]*/exe | grep -q ^/usr/bin/psd && ! ls -A /run/psd/*'
ok $? "no shard was started by that"
inside systemctl enable --now psd.target psd@0.socket psd@1.socket psd@0 psd@1
ok $? "two shards are enabled and start"
before=$(bits push)
[ -n "$before" ]
ok $? "a worker trains on them"

life=$(value 0 InvocationID)
inside sh -c 'dpkg --install /debs/psd_*.deb'
ok $? "the package is installed over itself, as an upgrade is"
[ -n "$(value 0 InvocationID)" ] && [ "$(value 0 InvocationID)" != "$life" ]
ok $? "the shards are started anew"
is "$before" "$(bits pull)" "and have the same bits"
life=$(value 0 InvocationID)
inside sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d && dpkg --install /debs/psd_*.deb'
is "$life" "$(value 0 InvocationID)" "unless the host's policy forbids it"
inside rm /usr/sbin/policy-rc.d

inside dpkg --remove psd
ok $? "the package is removed"
inside sh -c '! readlink /proc/[0-9]*/exe | grep -q ^/usr/bin/psd && ! ls /run/psd/0/socket && mountpoint -q /run/psd'
ok $? "its shards are stopped, nobody listens, and their memory is still there"
inside sh -c 'dpkg --install /debs/psd_*.deb && systemctl start psd.target'
ok $? "installed again, what was enabled starts"
is "$before" "$(bits pull)" "with the same bits"
inside journalctl -u psd@0 -n 20 --no-pager -o cat
says out 'data=kept'
ok $? "from memory"

inside dpkg --purge psd
ok $? "the package is purged"
says err 'psd: /var/lib/psd holds what shards have saved, and is left there'
ok $? "which says that it leaves what was saved"
inside sh -c '! readlink /proc/[0-9]*/exe | grep -q ^/usr/bin/psd && ! mountpoint -q /run/psd && ! find /etc -name "*psd*" | grep -vE "^/etc/(subuid|subgid)"'
ok $? "no process, memory or configuration is left"
inside sh -c 'ls -A /var/lib/psd | tr "\n" " "; systemctl --failed --no-legend'
is "0 1 " "$(cat "$work/out")" "but the shards' directories, and no unit has failed"

done_testing
