#!/usr/bin/env bash
# Cross-builds for 64-bit Arm and runs the tests of the kernels, codecs, layers and training under
# QEMU's user mode, with NEON and with SVE vectors of several lengths. Installs a missing compiler
# or QEMU, and unpacks libraries for Arm into build/arm64-root without touching the system's own
# packages. Not part of scripts/test.sh, since emulated tests are slow.
# Environment: JOBS (default: the number of cores), SVE_BITS (default: "128 256 512").
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_no_arguments "$@"

jobs=${JOBS:-$(nproc)}
root=build/arm64-root
libraries=(libcli11-dev libeigen3-dev libfmt-dev libgmock-dev libgtest-dev libhwy-dev libmetis-dev
           libsodium-dev libxxhash-dev libzip-dev nlohmann-json3-dev zlib1g-dev)

# Fetches the libraries and their dependencies, as apt would install them on an empty Arm machine.
unpack_libraries() {
  local apt package
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' RETURN
  mkdir -p "$apt"/{state/lists,cache/archives}/partial
  : >"$apt/status"
  apt_for_arm() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
      -o APT::Install-Recommends=false -o APT::Sandbox::User= -o Acquire::Languages=none \
      -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" "$@"
  }
  apt_for_arm update
  apt_for_arm --download-only --yes install "${libraries[@]}"
  rm -rf $root
  mkdir -p $root
  for package in "$apt"/cache/archives/*.deb; do
    case ${package##*/} in
      libc6-dev_* | libcrypt-dev_* | linux-libc-dev_*) ;;  # the cross compiler has its own
      *) dpkg -x "$package" $root ;;
    esac
  done
  echo "${libraries[@]}" >$root/libraries
}

say "Installing missing packages"
bash scripts/install_dependencies.sh arm
if [ "$(cat $root/libraries 2>/dev/null)" != "${libraries[*]}" ]; then
  say "Fetching libraries for Arm"
  unpack_libraries
fi

say "Building for Arm"
cmake --preset arm64 >/dev/null
nice cmake --build --preset arm64 -j "$jobs"

failed=()
for bits in ${SVE_BITS:-128 256 512}; do
  say "Testing, SVE vectors of $bits bits"
  export QEMU_CPU=max,sve-default-vector-length=$((bits / 8))
  qemu-aarch64 -L $root build/arm64/tests/test_core --gtest_filter=AggregateInner.ByHand |
    grep '^SIMD targets:'
  ctest --preset arm64 -j "$jobs" --no-tests=error || failed+=("$bits bits")
done

if [ ${#failed[@]} -gt 0 ]; then
  echo "Failed: ${failed[*]}" >&2
  exit 1
fi
