#!/usr/bin/env bash
# Builds Heliograph on a machine with a CUDA GPU, and checks and measures it there: the twin tests of
# the kernels (under compute-sanitizer too, where that is), training with 1, 2 and 4 ranks on one
# GPU against the CPU, micro-benchmarks, whole epochs, PyTorch and PyG on the same graphs. Needs the
# CUDA Toolkit, CMake 3.25, a C++20 compiler and Python; no package registry: what else the build
# takes comes from a bundle that scripts/make_gpu_bundle.sh has made, or from the system.
#
# Usage: scripts/gpu_check.sh [--bundle FILE.tar.xz|DIR] [--out DIR] [--build DIR] [--build-only]
#                             [--steps LIST] [--scale X] [--partitioner metis|contiguous] [--jobs N]
#   --bundle       default: build/gpu_bundle.tar.xz if it is there, else the system's packages
#   --out          where results go (default build/gpu_check): OUT/table.md, and OUT/STEP.log
#   --build        default build/gpu; what is there already is not built again
#   --build-only   ends after the build: no GPU is needed
#   --steps        comma-separated, of: tests, memcheck, racecheck, oracle, nccl, bench, epochs,
#                  torch (default: all). Results of other steps that lie in OUT stay there.
#   --scale        of the graphs of epochs and torch (default 1: published size)
# A step that fails takes nothing from the others; the table names it.
# Exit codes: 0 all passed; 1 a step failed; 2 usage, or a tool is missing; 3 built, but there is no
# CUDA device.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "gpu_check.sh: $*" >&2; exit 2; }

root=$(dirname "$here")
bundle= out=$root/build/gpu_check build=$root/build/gpu build_only=no
steps=tests,memcheck,racecheck,oracle,nccl,bench,epochs,torch scale=1 partitioner=metis jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --build-only) build_only=yes; shift; continue ;;
    --bundle|--out|--build|--steps|--scale|--partitioner|--jobs)
      [ $# -ge 2 ] || fail "$1 needs a value" ;;
    -h|--help) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "$1 is no option; see --help" ;;
  esac
  case $1 in
    --bundle) bundle=$(realpath -m "$2") ;;
    --out) out=$(realpath -m "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --steps) steps=$2 ;;
    --scale) scale=$2 ;;
    --partitioner) partitioner=$2 ;;
    --jobs) jobs=$2 ;;
  esac
  shift 2
done
for name in ${steps//,/ }; do
  case $name in
    tests|memcheck|racecheck|oracle|nccl|bench|epochs|torch) ;;
    *) fail "--steps: there is no step $name" ;;
  esac
done
cd "$root" || exit 2
mkdir -p "$out" "$build" || exit 2
say() { printf '\n== %s\n' "$*"; }

# Tools.
command -v cmake >/dev/null || fail "there is no cmake"
version=$(cmake --version | sed -n '1s/[^0-9]*//p')
[ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ] ||
  fail "CMake is $version; 3.25 or newer is needed"
python=$(command -v python3) || fail "there is no python3"
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
command -v nvcc >/dev/null || fail "there is no nvcc: set CUDA_HOME"

# The bundle.
[ -n "$bundle" ] || { [ ! -e build/gpu_bundle.tar.xz ] || bundle=$root/build/gpu_bundle.tar.xz; }
cache=()
if [ -n "$bundle" ]; then
  [ -e "$bundle" ] || fail "$bundle does not exist; make it by scripts/make_gpu_bundle.sh"
  if [ -f "$bundle" ]; then
    say "Unpacking $bundle"
    rm -rf "$build/gpu_bundle"
    tar -C "$build" -xJf "$bundle" || fail "$bundle cannot be unpacked"
    bundle=$build/gpu_bundle
  fi
  wanted=$(awk '$1 == "libc" { print $2 }' "$bundle/MANIFEST")
  have=$(getconf GNU_LIBC_VERSION | awk '{ print $2 }')
  [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] ||
    fail "the bundle needs C library $wanted, here is $have: make it on an older system"
  cache=(-C "$bundle/cache.cmake")
fi

# The build.
devices() { "$build/bench/heliograph_device_bench" --devices; }
architectures=()
if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  architectures=(-DCMAKE_CUDA_ARCHITECTURES=native)  # Faster than building for all.
fi
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
say "Building in $build"
started=$SECONDS
{
  cmake -S "$root" -B "$build" "${generator[@]}" "${cache[@]}" "${architectures[@]}" \
    -DHELIOGRAPH_MPI=OFF -DHELIOGRAPH_CUDA=ON -DHELIOGRAPH_BENCHMARKS=ON -DBUILD_TESTING=ON &&
  cmake --build "$build" -j "$jobs" \
    --target heliograph_command heliograph_device_bench test_cuda_device
} >"$out/build.log" 2>&1 || {
  tail -n 20 "$out/build.log" >&2
  echo "gpu_check.sh: the build failed; all of it is in $out/build.log" >&2
  exit 1
}
echo "Built in $((SECONDS - started)) s"
[ "$build_only" = no ] || exit 0
if ! count=$(devices 2>&1); then
  echo "gpu_check.sh: built, but there is no CUDA device here: $count" >&2
  exit 3
fi

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
{
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null ||
    echo "$count CUDA devices"
  nvcc --version | grep release
  echo "commit $commit$(git diff --quiet HEAD 2>/dev/null || echo ', with changes')"
  date -u +%Y-%m-%d
} >"$out/machine.txt"

failed=no
note() {  # Replaces what an earlier run has said of the step.
  touch "$out/steps.tsv"
  grep -v "^$1	" "$out/steps.tsv" >"$out/steps.new"
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$out/steps.new"
  mv "$out/steps.new" "$out/steps.tsv"
}
step() {  # step NAME SECONDS COMMAND...
  local name=$1 limit=$2
  shift 2
  say "$name"
  local begun=$SECONDS result=passed status
  timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1
  status=$?
  if [ $status = 124 ] || [ $status = 137 ]; then
    result="failed: over $limit s"
  elif [ $status != 0 ]; then
    result="failed: exit code $status"
  fi
  [ "$result" = passed ] || { failed=yes; tail -n 5 "$out/$name.log" >&2; }
  note "$name" "$result" $((SECONDS - begun))
  echo "$name $result"
}
wanted() { [[ ,$steps, == *,$1,* ]]; }

command=$build/heliograph
tests=$build/tests/test_cuda_device
work=$build/gpu_check
mkdir -p "$work"
graphs=(reddit products)
# Sanitizers slow a kernel down a hundredfold: the large sizes go without.
few=${GPU_CHECK_SANITIZER_FILTER:-'-*[Ll]arge*'}

if wanted tests; then
  step tests 600 "$tests" --gtest_output="json:$out/tests.json"
fi
for tool in memcheck racecheck; do
  wanted $tool || continue
  if command -v compute-sanitizer >/dev/null; then
    step $tool 1200 compute-sanitizer --tool $tool --error-exitcode 9 "$tests" --gtest_filter="$few"
  else
    note $tool "not run: there is no compute-sanitizer" 0
  fi
done
if wanted oracle; then
  step oracle 900 "$python" -B "$here/gpu_check/oracle.py" --heliograph "$command" \
    --work "$work/oracle" --json "$out/oracle.json"
fi
if wanted nccl; then
  if [ "$count" -ge 2 ]; then
    ranks=2
    [ "$count" -lt 4 ] || ranks=2,4
    step nccl 900 "$python" -B "$here/gpu_check/oracle.py" --heliograph "$command" \
      --transport nccl --ranks $ranks --work "$work/nccl" --json "$out/nccl.json"
  else
    note nccl "not run: it takes two GPUs" 0
  fi
fi
if wanted bench; then
  step bench 600 "$build/bench/heliograph_device_bench" --json="$out/bench.json"
fi
if wanted epochs; then
  step epochs 3600 "$python" -B "$here/gpu_check/epochs.py" --heliograph "$command" \
    --work "$work/epochs" --json "$out/epochs.json" --scale "$scale" --partitioner "$partitioner"
fi
if wanted torch; then
  for graph in "${graphs[@]}"; do
    if [ -d "$work/epochs/$graph" ]; then
      step "torch_$graph" 1800 "$python" -B "$root/bench/torch_epoch.py" \
        --data "$work/epochs/$graph" --json "$out/torch_$graph.json"
    else
      note "torch_$graph" "not run: the step epochs has left no graph" 0
      failed=yes
    fi
  done
fi

say "Table"
"$python" -B "$here/gpu_check/table.py" "$out" || failed=yes
[ "$failed" = no ]
