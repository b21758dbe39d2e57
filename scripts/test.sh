#!/usr/bin/env bash
# Installs missing packages, builds everything and runs all tests: first, under sanitizers, the
# parts of the suite where they matter, then the whole suite. Exits non-zero if anything failed.
# Takes about half an hour on two cores. Environment: JOBS (default: the number of cores). One test
# more than that runs at a time, since tests also wait.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_no_arguments "$@"

jobs=${JOBS:-$(nproc)}

say "Installing missing packages"
bash scripts/install_dependencies.sh build test

failed=()
for preset in asan tsan; do
  say "Building for the sanitizers: $preset"
  cmake --preset $preset >/dev/null
  cmake --build --preset $preset -j "$jobs"
  say "Testing under the sanitizers: $preset"
  ctest --preset $preset -j "$((jobs + 1))" --no-tests=error || failed+=("$preset")
done

say "Building everything, optimised"
cmake -S . -B build/test -G Ninja -DCMAKE_BUILD_TYPE=Release -DHELIOGRAPH_WERROR=ON \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DCMAKE_CUDA_ARCHITECTURES=80 >/dev/null
cmake --build build/test -j "$jobs"
say "Testing${failed[*]:+ (failed under the sanitizers: ${failed[*]})}"
ctest --test-dir build/test -j "$((jobs + 1))" --output-on-failure --no-tests=error || failed+=("the suite")

if [ ${#failed[@]} -gt 0 ]; then
  echo "Failed: ${failed[*]}" >&2
  exit 1
fi
