#!/usr/bin/env bash
# Installs the missing ones of the Debian 12 packages that Heliograph needs. If none is missing, it
# touches neither the network nor the system. Needs root or sudo.
# Usage: scripts/install_dependencies.sh [build] [quickstart] [test] [experiments] [arm]
# Default: all except arm, which is the cross compiler and emulator of scripts/test_arm.sh.
set -euo pipefail

build=(cmake g++ ninja-build libcli11-dev libeigen3-dev libfmt-dev libhwy-dev libmetis-dev
       libopenmpi-dev libsodium-dev libxxhash-dev libzip-dev nlohmann-json3-dev openmpi-bin
       zlib1g-dev)
quickstart=(python3 python3-numpy)
experiments=(python3 python3-numpy python3-scipy python3-matplotlib)
arm=(cmake g++-aarch64-linux-gnu ninja-build qemu-user)
test=(clang-format libbenchmark-dev libgmock-dev libgtest-dev
      "${experiments[@]}")

fail() { echo "install_dependencies.sh: $*" >&2; exit 1; }

[ $# -gt 0 ] || set -- build quickstart test experiments
wanted=()
lists_wanted=no
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    quickstart) wanted+=("${quickstart[@]}"); lists_wanted=yes ;;
    test) wanted+=("${test[@]}") ;;
    experiments) wanted+=("${experiments[@]}") ;;
    arm) wanted+=("${arm[@]}") ;;
    *) fail "no such group: $group (build, quickstart, test, experiments, arm)" ;;
  esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  fail "this is not a Debian system; install the equivalents of: ${wanted[*]}"

missing=()
while read -r package; do
  [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1)" = installed ] ||
    missing+=("$package")
done < <(printf '%s\n' "${wanted[@]}" | sort -u)

# The quickstart's graph is made from the package lists. (grep counts here, since `grep -q` stops
# early, and apt-cache would fail the pipe.)
lists_missing=no
if [ "$lists_wanted" = yes ] && [ "$(apt-cache dumpavail 2>/dev/null | grep -c '^Package:')" = 0 ]
then
  lists_missing=yes
fi
[ ${#missing[@]} -gt 0 ] || [ "$lists_missing" = yes ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null ||
    fail "there is no sudo; run this as root: apt-get update && apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }
install() {
  apt install --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >"$log" 2>&1
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
updated=no
update() {
  echo "Fetching the package lists"
  apt update >"$log" 2>&1 || { tail -n 5 "$log" >&2; fail "apt-get update failed"; }
  updated=yes
}

[ "$lists_missing" = no ] || update
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${missing[*]}"
  # Absent or outdated lists make it fail: fetch new ones and try once more.
  if ! install; then
    [ "$updated" = no ] && update && install ||
      { tail -n 15 "$log" >&2; fail "apt-get could not install ${missing[*]}"; }
  fi
fi
