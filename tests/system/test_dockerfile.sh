#!/usr/bin/env bash
# deploy/Dockerfile without an engine: its steps are carried out in copies of a Debian root, then the services of
# compose.yaml are started in the last of them, as the image's user. Needs root, the network and PSD_TEST_ROOT, see
# roots.sh. Prints TAP.
#
# Helpers are called by name (SC2317); shells inside expand for themselves (SC2016).
# shellcheck disable=SC2016,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
# shellcheck source-path=SCRIPTDIR source=roots.sh
. "$here/roots.sh"

source=${PSD_SOURCE_DIR:-$here/../..}
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER
root_wanted "the Dockerfile's steps make an image that trains the digits"

# ---- building ----

# A JSON list's strings, one a line.
list() { python3 -c 'import json, sys; print("\n".join(json.loads(sys.argv[1])))' "$1"; }

# The build's context, as .dockerignore leaves it.
context() { sed 's,^,./,' "$source/deploy/Dockerfile.dockerignore" | tar -C "$source" --anchored --exclude-from=- -cf - "$@"; }

# copy [--from=STAGE] SOURCE... DESTINATION: a directory's contents, or files into a directory that ends with a slash.
copy() {
  local from='' to=${*: -1}
  if [[ $1 = --from=* ]]; then
    from=$work/${1#--from=}
    shift
  fi
  mkdir -p "$root$to"
  while [ $# -gt 1 ]; do
    if [ -z "$from" ] && [ "$1" = . ]; then
      context . | tar -C "$root$to" -xf - || return 1
    elif [ -z "$from" ]; then
      cp -a "$source/$1" "$root$to" || return 1
    elif [ -d "$from$1" ]; then
      cp -a "$from$1/." "$root$to" || return 1
    else
      cp -a "$from$1" "$root$to" || return 1
    fi
    shift
  done
}

# instruction NAME ARGUMENT
instruction() {
  local words
  read -r -a words <<<"$2"
  case $1 in
    FROM)
      [ "${words[0]}" = debian:12-slim ] && root_copy "${words[2]:-image}"
      ;;
    SHELL) mapfile -t shell < <(list "$2") ;;
    COPY) copy "${words[@]}" ;;
    RUN) root_exec HOME=/root "${shell[@]}" "$2" ;;
    USER) user=$2 ;;
    CMD) mapfile -t cmd < <(list "$2") ;;
    HEALTHCHECK) mapfile -t health < <(list "${2#*CMD }") ;;
    WORKDIR | EXPOSE) ;;
    *) false ;;
  esac
}

shell=() user='' cmd=() health=()
while read -r name argument; do
  instruction "$name" "$argument" >"$work/out" 2>"$work/err"
  status=$?
  ok "$status" "$name ${argument:0:80}"
  if [ "$status" -ne 0 ]; then
    done_testing
  fi
done < <(sed -e '/^#/d' -e '/^$/d' "$source/deploy/Dockerfile" | sed -e ':more' -e '/\\$/{N;s/\\\n *//;b more}')

# ---- running ----

shm=$(mktemp -d /dev/shm/psd-test-XXXXXX)
chmod 1777 "$shm"
trap 'cleanup; rm -rf "$shm"' EXIT

# As the image's user; a container's end is the end of all in it.
token=psd:0123456789abcdef
as_user() { PSD_TEST_MARK=$mark root_exec --userspec="$user" PSD_TEST_MARK="$mark" PSD_TOKEN="$token" "$@"; }
healthy() { as_user "${health[@]}" >"$work/out" 2>"$work/err"; }
crash() {
  local pid
  for pid in $(marked); do
    kill -KILL "$pid" 2>/dev/null
  done
  wait
  within none_marked
}

as_user sh -c 'ldd /usr/local/bin/* /usr/local/lib/*.so | grep "not found"' >"$work/out" 2>"$work/err"
is 1 $? "the image has every library that its programs want"
as_user sh -c '! touch /usr/local/bin/psd && ! command -v gcc' >"$work/out" 2>"$work/err"
ok $? "its user cannot change them, and there is no compiler"

as_user "${cmd[@]}" >"$work/shard-0" 2>&1 &
within healthy
ok $? "what it does by itself is healthy"
grep -q 'live_dir=/dev/shm/psd-7420/psd-0 data=new' "$work/shard-0"
ok $? "and keeps its data where compose.yaml mounts the host's memory"
crash
rm -rf "$shm/psd-7420" # a cluster of one shard

# ---- what compose.yaml starts ----

# Each service in a network namespace of its own, and all on one bridge.
hub=psd-$$
services=(shard-0 shard-1 worker-0 worker-1 worker-2)
network() {
  local service address=1
  ip netns add "$hub" && ip -n "$hub" link add bridge type bridge && ip -n "$hub" link set bridge up || return 1
  for service in "${services[@]}"; do
    address=$((address + 1))
    echo "10.89.0.$address $service" >>"$root/etc/hosts"
    ip netns add "$hub-$service" && ip -n "$hub" link add "veth$address" type veth peer name eth0 netns "$hub-$service" &&
      ip -n "$hub" link set "veth$address" master bridge up && ip -n "$hub-$service" link set lo up &&
      ip -n "$hub-$service" addr add "10.89.0.$address/24" dev eth0 && ip -n "$hub-$service" link set eth0 up || return 1
  done
}
network_remove() {
  local service
  for service in "${services[@]/#/-}" ''; do
    ip netns delete "$hub$service" 2>/dev/null
  done
}

# start SERVICE: its environment and command, as compose.yaml has them.
start() {
  local words
  mapfile -t words < <(python3 -c 'import sys, yaml
service = yaml.safe_load(open(sys.argv[1]))["services"][sys.argv[2]]
given = {**service["environment"], "PSD_TOKEN": sys.argv[3], "PSD_HTTP_TOKEN": "fedcba9876543210"}
words = [word.replace("$$", "$") for word in service.get("entrypoint", []) + service["command"]]
print(*[k + "=" + v for k, v in given.items()], *words, sep="\n")' \
    "$source/deploy/compose.yaml" "$1" "$token")
  net=$hub-$1 as_user "${words[@]}" >"$work/$1" 2>&1 &
}
start_shards() {
  start shard-0
  start shard-1
  net=$hub-shard-0 within healthy && net=$hub-shard-1 within healthy
}
# Outside of compose.yaml's services: ask COMMAND...
ask() { net=$hub-worker-0 as_user PSD_SHARDS=shard-0:7420,shard-1:7420 "$@" 2>"$work/err"; }

why=
if ! python3 -c 'import yaml' 2>/dev/null; then
  why="python3-yaml is not installed"
elif ! command -v ip >/dev/null; then
  why="iproute2 is not installed"
fi
if [ -n "$why" ]; then
  skip "compose.yaml's shards and workers train the digits in it" "$why"
  done_testing
fi

trap 'cleanup; network_remove; rm -rf "$shm"' EXIT
network >"$work/out" 2>"$work/err"
ok $? "a network like that of compose.yaml is there"
start_shards
ok $? "its shards are healthy in it"
ask psctl status >"$work/out"
ok $? "and answer under their names"
workers=()
for service in "${services[@]:2}"; do
  start "$service"
  workers+=($!)
done
bad=0
for pid in "${workers[@]}"; do
  wait "$pid" || bad=1
done
cp "$work/worker-0" "$work/out"
ok "$bad" "its workers train to the end"
accuracy=$(sed -n 's/^held-out accuracy  *\([0-9]*\).*/\1/p' "$work/worker-0")
[ "${accuracy:-0}" -ge 95 ]
ok $? "and have learnt the digits (${accuracy:-?} %)"

cp "${PSD_BUILD_DIR:-$build}/tests/system/bits" "$root/usr/local/bin/"
before=$(ask bits push)
[ -n "$before" ]
ok $? "a variable is trained"
crash
start_shards
ok $? "after kill -9 new containers are healthy"
grep -q 'data=kept' "$work/shard-0" && grep -q 'data=kept' "$work/shard-1"
ok $? "and have found their data"
is "$before" "$(ask bits pull)" "the variable has the same bits"

# The host's /dev/shm is lost with a reboot; compose.yaml's volumes are not.
off() {
  crash
  rm -rf "$shm/psd-7420"
  start_shards
}
rebuilt() { grep -q 'data=rebuilt' "$work/shard-0" && grep -q 'data=rebuilt' "$work/shard-1"; }

before=$(ask bits push)
for pid in $(marked); do
  kill -TERM "$pid" # as compose stops: it waits, within stop_grace_period
done
wait
off
ok $? "after a stop and a reboot of the host the containers are healthy"
rebuilt
ok $? "and have found what the stop saved in their volume"
is "$before" "$(ask bits pull)" "the variable has the same bits"
before=$(ask bits durable)
off
ok $? "after a power cut they are healthy"
rebuilt
ok $? "and have found what was pushed durably"
is "$before" "$(ask bits pull)" "the variable has the same bits"
crash

done_testing
