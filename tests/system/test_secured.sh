#!/usr/bin/env bash
# Tokens and TLS together, as they are deployed: certificates of deploy/make-certs.sh, tokens in a file, real processes.
# A client with both trains, on shards and in groups, here and on other machines; one without either gets nothing; and
# both are renewed while a training goes on. Prints TAP; tap.sh says which executables are used.
#
# The workers' own variables are for their shells (SC2016); helpers are called by name (SC2317); commands are long, and
# their status is checked below them (SC2181).
# shellcheck disable=SC2016,SC2181,SC2317
set -uo pipefail

# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

PSRUN=$(realpath "$PSRUN")
PSCTL=$(realpath "$PSCTL")
DIGITS=$(realpath "$DIGITS")
PSD_BIN=$(realpath "$PSD_BIN")
source=$(realpath "${PSD_SOURCE_DIR:-$here/../..}")
BITS=$(realpath "${PSD_BUILD_DIR:-$build}/tests/system/bits")
unset TF_CONFIG PSD_SHARDS PSD_WORKERS PSD_TASK PSD_CLUSTER PSD_TOKEN PSD_TOKEN_FILE PSD_TLS_CA PSD_TLS_CERT PSD_TLS_KEY PSD_TLS_NAME
umask 077

try() { PSD_TEST_MARK=$mark "$@" >"$work/out" 2>"$work/err" </dev/null; }

# ---- certificates ----

certs=$work/certs other=$work/other
hosts=127.0.0.1,127.0.0.2,127.0.0.3
try "$source/deploy/make-certs.sh" "$certs" "shard=$hosts" "worker=$hosts" psctl=
must $? "a script makes a CA and certificates"
is "600 600 600 600 " "$(stat -c %a "$certs"/{ca,shard,worker,psctl}.key | tr '\n' ' ')" "whose keys are for nobody else"
before=$(cat "$certs/ca.pem")
try "$source/deploy/make-certs.sh" --days 7 "$certs" psctl= &&
  [ "$before" = "$(cat "$certs/ca.pem")" ] && try openssl verify -x509_strict -CAfile "$certs/ca.pem" "$certs"/{shard,worker,psctl}.pem
ok $? "once more, it renews what it is told, by the same CA"
! try "$source/deploy/make-certs.sh" "$certs" $'shard=a\nbasicConstraints=CA:TRUE' && ! try "$source/deploy/make-certs.sh" "$certs" ca=a
ok $? "and takes no host that is none"
if command -v shellcheck >/dev/null; then
  try shellcheck -x "$source/deploy/make-certs.sh"
  ok $? "shellcheck accepts it"
fi
try "$source/deploy/make-certs.sh" "$other" "shard=$hosts" "worker=$hosts"
must $? "another CA is made in another directory"

# ---- tokens ----

secret() { od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'; }
trains=w:train:$(secret) rules=boss:admin:$(secret)
printf '%s\n' "$trains" "$rules" >"$work/tokens"
echo "$trains" >"$work/token"
echo "w:train:$(secret)" >"$work/wrong" # the name is known, the secret is not

# as TOKEN CA CERT COMMAND...: a process with these, "" for none. CA and CERT name directories of certificates.
as() {
  local token=$1 ca=$2 cert=$3
  shift 3
  env PSD_TEST_MARK="$mark" ${token:+PSD_TOKEN_FILE="$token"} ${ca:+PSD_TLS_CA="$ca/ca.pem"} \
    ${cert:+PSD_TLS_CERT="$cert/worker.pem" PSD_TLS_KEY="$cert/worker.key"} "$@" >"$work/out" 2>"$work/err" </dev/null
}

# tls [mutual]: psrun's options for its shards.
tls() {
  printf -- '--psd-option=%s\n' --tls-cert="$certs/shard.pem" --tls-key="$certs/shard.key" --tokens="$work/tokens"
  [ "${1:-}" != mutual ] || echo "--psd-option=--tls-client-ca=$certs/ca.pem"
}

secret >"$work/http-token"

# scrape CA [CURL'S OPTIONS...]: shard 0's answer to a watcher.
scrape() {
  local ca=$1
  shift
  try curl -sS --max-time 20 --cacert "$ca" "$@" "https://$(sed -n 's/.* http=//p' "$work/log-0")/metrics"
}
watch=(-H "Authorization: Bearer $(cat "$work/http-token")" --fail)

# ---- psrun, here and on other machines ----

digits=("$DIGITS" --epochs 6 --strategy sync --seed 7 --svg '' --data "$source/client/examples/data/digits")
for kind in server mutual; do
  mapfile -t options < <(tls "$kind")
  cert=
  [ "$kind" = server ] || cert=$certs
  as "$work/token" "$certs" "$cert" "$PSRUN" --shards 2 --workers 2 "${options[@]}" -- "${digits[@]}"
  [ $? -eq 0 ] && says err 'TCP connections are encrypted' && says out 'held-out accuracy'
  ok $? "$kind: workers of psrun train with a token and certificates"
done

mkdir "$work/bin"
ln -s "$PSRUN" "$work/bin/psrun"
ln -s "$PSD_BIN" "$work/bin/psd"
cat >"$work/ssh" <<END
#!/bin/sh
printf '%s\n' "\$@" >>"$work/ssh-words"
for command; do :; done
exec env -i PATH="$work/bin:/usr/bin:/bin" PSD_TEST_MARK="$mark" sh -c "\$command"
END
chmod 700 "$work/ssh"
mapfile -t options < <(tls mutual)
as "$work/token" "$certs" "$certs" "$PSRUN" --ssh "'$work/ssh'" --hosts 127.0.0.2,127.0.0.3 --shards 2 --workers 2 \
  "${options[@]}" -- sh -c 'echo "$PSD_TLS_CA $PSD_TLS_CERT $PSD_TLS_KEY"; exec "$@"' sh "${digits[@]}"
[ $? -eq 0 ] && says out '^worker 1@127.0.0.3 | .*held-out accuracy\|^worker 0@127.0.0.2 | .*held-out accuracy'
ok $? "workers on other machines are told where their certificates lie, and train"
says out "^worker 1@127.0.0.3 | $certs/ca.pem $certs/worker.pem $certs/worker.key\$"
ok $? "in their environment"
! grep -q 'PSD_T\|BEGIN' "$work/ssh-words"
ok $? "and nothing of it is on a command line"
none_marked
ok $? "nothing is left of these runs"

# ---- intruders ----

# start_shard NUMBER: one of two, mutual.
start_shard() {
  rm -f "$work/ready-$1"
  PSD_TEST_MARK=$mark RUNTIME_DIRECTORY=$live/$1 "$PSD_BIN" --shard "$1" --shards 2 --listen "127.0.0.1:0" \
    --tls-cert "$work/now/shard.pem" --tls-key "$work/now/shard.key" --tls-client-ca "$work/now/ca.pem" --tokens "$work/tokens" \
    --http 127.0.0.1:0 --http-tls --http-tokens "$work/http-token" \
    --memory 128MiB --ready-file "$work/ready-$1" 2>"$work/log-$1" >/dev/null </dev/null &
  psds[$1]=$!
  within test -s "$work/ready-$1"
}
live=$(mktemp -d "$(memory_dir)/psd-test-XXXXXX")
trap 'cleanup; rm -rf "$live"' EXIT
mkdir "$live/0" "$live/1"
cp -r "$certs" "$work/now"
psds=()
start_shard 0 && start_shard 1
must $? "two shards want both of who comes"
PSD_SHARDS=$(cat "$work/ready-0"),$(cat "$work/ready-1")
export PSD_SHARDS

as "$work/token" "$certs" "$certs" "$BITS" push
ok $? "who has both trains on them"
model=$(cat "$work/out")
try "$PSCTL" --token-file "$work/token" --tls-ca "$certs/ca.pem" --tls-cert "$certs/psctl.pem" --tls-key "$certs/psctl.key" variables &&
  says out '^ *bits .*\bw\b'
ok $? "and psctl tells what they hold"
! try "$PSCTL" --token-file "$work/none" status && says err '^psctl: --token-file: cannot read .*/none: No such file'
ok $? "a token file that is not there is said with its option"
! try env PSD_TOKEN_FILE="$work/none" "$PSCTL" status && says out ': PSD_TOKEN_FILE: cannot read .*/none: No such file'
ok $? "or with its variable"
! try "$PSCTL" --tls-ca "$work/none" status && says err "^psctl: --tls-ca: cannot read .*/none: No such file"
ok $? "so is a CA"
! try env PSD_TLS_CA="$work/none" "$PSCTL" status && says out ": PSD_TLS_CA: cannot read the CA certificate '.*/none': No such file"
ok $? "of the environment"

if command -v curl >/dev/null; then
  scrape "$certs/ca.pem" "${watch[@]}" && says out '^psd_variables 1$'
  ok $? "who watches has a token of his own, and the CA: he scrapes over TLS"
  ! scrape "$certs/ca.pem" --fail && ! scrape "$other/ca.pem" "${watch[@]}" && [ ! -s "$work/out" ]
  ok $? "and gets nothing without either"
fi

# nothing SENTENCE WHY TOKEN CA CERT: neither a training nor a query gets anything but the reason.
unknown='does not know the CA of our certificate'
nothing() {
  local sentence=$1 why=$2
  shift 2
  ! as "$@" "$BITS" pull && says err "$why" && [ ! -s "$work/out" ] &&
    ! as "$@" "$PSCTL" --timeout 10s variables && ! says out '\bbits\b' && grep -q "$why" "$work/out" "$work/err"
  ok $? "$sentence"
}
nothing "the right certificate and a wrong token: nothing" "token 'w' is not accepted" "$work/wrong" "$certs" "$certs"
nothing "the right certificate and no token: nothing" 'only peers that prove to have a token are let in' "" "$certs" "$certs"
nothing "the right token and a certificate of another CA: nothing" "$unknown" "$work/token" "$certs" "$other"
nothing "the right token and no certificate: nothing" TLS "$work/token" "$certs" ""
nothing "the right token and no TLS: nothing" TLS "$work/token" "" ""
nothing "who believes another CA does not speak to these shards" 'is of a CA that is not known here' "$work/token" "$other" "$certs"
as "$work/token" "$certs" "$certs" "$BITS" pull
is "$model" "$(cat "$work/out")" "who has both still finds the same bits"

# ---- both are renewed ----

hang_up() { kill -HUP "${psds[@]}"; }
logged() { [ "$(grep -c "$1" "$work/log-0")" -ge "$2" ] && [ "$(grep -c "$1" "$work/log-1")" -ge "$2" ]; }
read_again='certificate, key and CA were read again'

# The other cluster's CA is the next one. First both are trusted, and both tokens accepted, while a training goes on.
cat "$certs/ca.pem" "$other/ca.pem" >"$work/both.pem"
new=w2:train:$(secret)
echo "$new" >"$work/new"
mkdir "$work/between"
cp "$work/both.pem" "$work/between/ca.pem"
cp "$certs"/worker.* "$work/between/"
env PSD_TEST_MARK="$mark" PSD_TOKEN_FILE="$work/token" PSD_TLS_CA="$work/both.pem" PSD_TLS_CERT="$certs/worker.pem" \
  PSD_TLS_KEY="$certs/worker.key" "$DIGITS" --epochs 100000 --svg '' --data "$source/client/examples/data/digits" \
  >"$work/training" 2>"$work/training-err" </dev/null &
training=$!
# clock TOKEN CERT: how far it is.
clock() { as "$1" "$work" "$2" "$PSCTL" --job digits workers --json && sed -n 's/.*"clock": \([0-9]*\).*/\1/p' "$work/out" | head -n 1; }
further() { [ "$(clock "$2" "$3")" -gt "$1" ]; } 2>/dev/null
cp "$work/both.pem" "$work/ca.pem" # psctl believes both
within further 0 "$work/token" "$certs"
ok $? "a training goes on"
cp "$work/both.pem" "$work/now/ca.pem"
cp "$other"/shard.* "$work/now/"
printf '%s\n' "$trains" "$new" "$rules" >"$work/tokens"
hang_up
within logged "$read_again" 1
ok $? "a HUP reads certificates and tokens again"
within further "$(clock "$work/new" "$other")" "$work/new" "$other" && kill -0 "$training"
ok $? "which the training does not notice"
as "$work/new" "$other" "$other" "$BITS" pull
is "$model" "$(cat "$work/out")" "who has the new of both is let in"
if command -v curl >/dev/null; then
  within scrape "$other/ca.pem" "${watch[@]}" && ! scrape "$certs/ca.pem" "${watch[@]}"
  ok $? "and who watches sees the new certificate"
fi
as "$work/token" "$work/between" "$work/between" "$BITS" pull
is "$model" "$(cat "$work/out")" "and so is who has the old"

cp "$other/ca.pem" "$work/now/ca.pem"
printf '%s\n' "$new" "$rules" >"$work/tokens"
hang_up
within logged "$read_again" 2
cut_off() { ! kill -0 "$training" 2>/dev/null; }
within cut_off && grep -q 'DENIED\|TLS' "$work/training-err"
ok $? "after the old is taken out, who came with the old token is cut off, and told why"
nothing "the old of both: nothing" "$unknown" "$work/token" "$work/between" "$work/between"
nothing "the new certificate and the old token: nothing" "token 'w' is not accepted" "$work/token" "$other" "$other"
nothing "the new token and the old certificate: nothing" "$unknown" "$work/new" "$work/between" "$work/between"
as "$work/new" "$other" "$other" "$BITS" pull
is "$model" "$(cat "$work/out")" "the new of both: the same bits"
kill -TERM "${psds[@]}"
within none_marked
ok $? "nothing is left"
unset PSD_SHARDS

# ---- groups ----

printf '%s\n' "$trains" "$rules" >"$work/tokens"
group=("$DIGITS" --epochs 3 --strategy multi_worker_mirrored --svg '' --data "$source/client/examples/data/digits")
as "$work/token" "$certs" "$certs" "$PSRUN" --shards 0 --workers 3 -- "${group[@]}"
[ $? -eq 0 ] && says out 'held-out accuracy'
ok $? "workers alone reduce with both"
as "$work/token" "$certs" "$certs" "$PSRUN" --shards 0 --workers 3 --env PSD_TRANSPORT=tcp -- "${group[@]}"
[ $? -eq 0 ] && says out 'held-out accuracy'
ok $? "over TCP as well"
mapfile -t options < <(tls mutual)
as "$work/token" "$certs" "$certs" "$PSRUN" --shards 2 --workers 2 "${options[@]}" -- "${group[@]}"
[ $? -eq 0 ] && says out 'held-out accuracy'
ok $? "and so do those that meet at a shard"

# One of them belongs to another cluster: it is not let into the group, which cannot form, and reports that.
stranger='[ "$PSD_TASK" = 0 ] || export "$1"; shift; exec "$@"'
as "$work/token" "$certs" "$certs" "$PSRUN" --shards 0 --workers 2 -- sh -c "$stranger" sh PSD_TOKEN="$(cat "$work/wrong")" "${group[@]}"
[ $? -ne 0 ] && says err 'DENIED\|only peers that prove to have' && ! says out 'held-out accuracy'
ok $? "a rank with a wrong token is not let in"
as "$work/token" "$certs" "$certs" "$PSRUN" --shards 0 --workers 2 -- \
  sh -c '[ "$PSD_TASK" = 0 ] || export PSD_TLS_CERT="$1/worker.pem" PSD_TLS_KEY="$1/worker.key"; shift; exec "$@"' sh "$other" "${group[@]}"
[ $? -ne 0 ] && says err 'TLS\|certificate' && ! says out 'held-out accuracy'
ok $? "nor is one with another CA's certificate"
none_marked
ok $? "nothing is left of them"

done_testing
