#!/bin/sh
# Installs the release that this script lies in, as root: sh install.sh [--prefix /usr/local] [--without-parts]
#
# Into PREFIX/lib/tempolet/VERSION goes a virtual environment with the pinned packages, checked by their hashes, and PREFIX/bin/tempolet leads
# there. Other releases stay as they are. Unless --without-parts is given, `tempolet fetch` then brings what a standalone node needs.
set -eu
umask 022

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

prefix=/usr/local parts=yes
while [ $# -gt 0 ]; do
  case $1 in
  --prefix) [ $# -gt 1 ] || fail "--prefix needs a folder" && prefix=$2 && shift 2 ;;
  --without-parts) parts=no && shift ;;
  *) fail "$1: unknown; sh install.sh [--prefix FOLDER] [--without-parts]" ;;
  esac
done
case $prefix in /*) ;; *) fail "--prefix $prefix: give an absolute path" ;; esac
[ "$(id -u)" = 0 ] || fail "root is needed: a node makes mounts, network namespaces and cgroups"

cd "$(dirname "$0")"
sha256sum --check --strict --quiet SHA256SUMS || fail "the files of the release are not whole: fetch them again"
set -- tempolet-*.whl
[ $# = 1 ] && [ -f "$1" ] || fail "one wheel is expected beside this script, not: $*"
wheel=$1 version=${1#tempolet-}
home=$prefix/lib/tempolet/${version%%-*} link=$prefix/bin/tempolet
[ ! -e "$home" ] || fail "$home is there: this release is installed; remove that folder to install it again"

python=
for one in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
  if "$one" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then python=$one && break; fi
done
[ -n "$python" ] || fail "Python 3.11 or newer with venv is needed (on Debian: apt-get install python3-venv)"

trap 'rm -rf "$home"' EXIT # no half of an installation
"$python" -m venv "$home"
pip() { (cd / && "$home/bin/python" -m pip --quiet --disable-pip-version-check install --no-deps "$@"); }
pip --require-hashes --only-binary :all: --requirement "$PWD/requirements.txt"
pip --no-index "$PWD/$wheel"
trap - EXIT

if [ -e "$link" ] || [ -L "$link" ]; then
  echo "$link stays as it is: $home/bin/tempolet upgrade switches a node that runs"
else
  mkdir -p "$prefix/bin"
  ln -s "$home/bin/tempolet" "$link"
  echo "$link leads to $home"
fi
[ $parts = no ] || "$home/bin/tempolet" fetch
