#!/bin/sh
# packages.sh - installs the Debian packages that building and testing need; does nothing when all
# are there.  Run as root, or install the listed packages by hand.
set -eu
wanted="gcc make pkg-config check libjansson-dev libssl-dev libpcre2-dev libutf8proc-dev
        libmicrohttpd-dev libcurl4-openssl-dev libsqlite3-dev python3 python3-venv curl git clang-format"
missing=""
for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
        missing="$missing $package"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
