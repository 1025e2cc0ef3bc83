#!/usr/bin/env bash
# A CA for one cluster, and certificates of it:
#
#     deploy/make-certs.sh certs shard=ps0.example,10.0.0.10 worker=10.0.0.20
#
# makes DIR/ca.pem, which all want, and DIR/ca.key, which none does: put it away. For each NAME there are NAME.pem and
# NAME.key, good for both sides of a connection, with the hosts (names or numbers) by which the others may call it.
# "psctl=" has none: it only connects. Once more, with the same ca.key there, renews what is named; the CA stays.
# deploy/README.md ("Encryption") says who gets what.
set -euo pipefail

days=90 ca_days=3650 owner=
say() { echo "make-certs.sh: $*" >&2; }
usage() {
  cat <<'END'
usage: make-certs.sh [options] DIR NAME=[HOST,...]...

Makes a CA in DIR, unless one is there, and a certificate of it for each NAME, with openssl.

Options:
  --days N       how long a certificate is good (default 90)
  --ca-days N    how long a new CA is (default 3650)
  --owner USER   whose the keys of certificates are, a name or a number, such as 7420 in containers
                 (default who calls this; needs root)
  --help         print this and exit
END
}
wrong() {
  say "$*; --help says more"
  exit 2
}

while [[ ${1:-} = --* ]]; do
  case $1 in
    --days | --ca-days)
      [[ ${2:-} =~ ^[1-9][0-9]{0,4}$ ]] || wrong "$1 wants a number of days"
      if [ "$1" = --days ]; then days=$2; else ca_days=$2; fi
      shift
      ;;
    --owner)
      owner=${2:-}
      [ -n "$owner" ] || wrong "--owner wants a user"
      shift
      ;;
    --help)
      usage
      exit 0
      ;;
    *) wrong "there is no option $1" ;;
  esac
  shift
done
[ $# -ge 2 ] || wrong "a directory and at least one NAME=HOST,..."
dir=$1
shift

# hosts_of NAME=HOST,...: the certificate's subjectAltName, "" for none.
hosts_of() {
  local host hosts=() out=
  IFS=, read -ra hosts <<<"${1#*=}"
  for host in "${hosts[@]}"; do
    if [[ $host =~ ^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$ || $host =~ ^[0-9A-Fa-f]*:[0-9A-Fa-f:.]*$ ]]; then
      out+=${out:+,}IP:$host
    else
      out+=${out:+,}DNS:$host
    fi
  done
  echo "$out"
}
# All is looked at before anything is made: what is written below goes into openssl's configuration.
for word in "$@"; do
  [[ $word =~ ^[A-Za-z0-9][A-Za-z0-9._-]*=([A-Za-z0-9*._:-]+(,[A-Za-z0-9*._:-]+)*)?$ && ${#word} -le 4096 ]] ||
    wrong "'$word' is not NAME=HOST,..."
  [ "${word%%=*}" != ca ] || wrong "'ca' is the CA's own name"
done

if ! command -v openssl >/dev/null; then
  say "the program openssl is not installed here; on Debian: apt-get install openssl"
  exit 1
fi

umask 077
mkdir -p "$dir"
fresh=$(mktemp -d "$dir/.fresh-XXXXXX")
trap 'rm -rf "$fresh"' EXIT
new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

if [ -e "$dir/ca.pem" ] && [ -e "$dir/ca.key" ]; then
  say "the CA is the one that is there: $(openssl x509 -in "$dir/ca.pem" -noout -enddate)"
elif [ -e "$dir/ca.pem" ] || [ -e "$dir/ca.key" ]; then
  say "of $dir/ca.pem and $dir/ca.key only one is there"
  exit 1
else
  new_key "$fresh/ca.key"
  openssl req -x509 -new -sha256 -key "$fresh/ca.key" -days "$ca_days" -subj "/CN=psd CA" -out "$fresh/ca.pem" \
    -addext keyUsage=critical,keyCertSign,cRLSign
  chmod 644 "$fresh/ca.pem"
  mv "$fresh/ca.key" "$fresh/ca.pem" "$dir/"
fi

for word in "$@"; do
  name=${word%%=*} called=$(hosts_of "$word")
  {
    echo "basicConstraints=critical,CA:FALSE"
    echo "keyUsage=critical,digitalSignature"
    echo "subjectKeyIdentifier=hash"
    echo "authorityKeyIdentifier=keyid"
    [ -z "$called" ] || echo "subjectAltName=$called"
  } >"$fresh/extensions"
  new_key "$fresh/$name.key"
  openssl req -new -key "$fresh/$name.key" -subj "/CN=$name" -out "$fresh/request"
  if ! openssl x509 -req -sha256 -in "$fresh/request" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" \
    -set_serial "0x$(openssl rand -hex 16 | sed 's/^./5/')" -days "$days" -extfile "$fresh/extensions" \
    -out "$fresh/$name.pem" 2>"$fresh/said"; then
    cat "$fresh/said" >&2
    exit 1
  fi
  chmod 644 "$fresh/$name.pem"
  [ -z "$owner" ] || chown "$owner" "$fresh/$name.key"
  mv "$fresh/$name.key" "$fresh/$name.pem" "$dir/" # a HUP comes after both
done
[ -z "$owner" ] || chmod 755 "$dir" # the owner looks in; keys stay his alone, and the CA's the caller's
