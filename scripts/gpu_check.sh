#!/usr/bin/env bash
# Builds Heliograph on a machine with a CUDA GPU, then checks and measures it, in three calls of ten
# minutes: the twin tests of the kernels and micro-benchmarks; training with 1, 2 and 4 ranks on one GPU
# against the CPU, and the twin tests under compute-sanitizer; whole epochs, and PyTorch and PyG on the
# same graphs. Needs the CUDA Toolkit, CMake 3.25, a C++20 compiler and Python, but no package registry:
# the other packages come from a bundle made by scripts/make_gpu_bundle.sh, or from the system.
#
# Usage: scripts/gpu_check.sh [--call 1|2|3] [--bundle FILE.tar.xz|DIR] [--out DIR] [--build DIR]
#                             [--steps LIST] [--minutes N] [--dry] [--scale X]
#                             [--partitioner metis|contiguous] [--jobs N]
#   --call         1: steps tests, bench; 2: oracle, memcheck, racecheck; 3: epochs, torch. Each makes
#                  and partitions the graphs of epochs meanwhile, and ends within 9.5 minutes
#   --bundle       default: build/gpu_bundle.tar.xz if it exists, else the system's packages
#   --out          folder for results (default build/gpu_check), which gets OUT/table.md and
#                  OUT/results.tar.gz (all logs and JSON), both written again after each step
#   --build        build folder (default build/gpu). It keeps what was built, the graphs, and the
#                  results of earlier calls and steps
#   --steps        comma-separated list of tests, bench, oracle, memcheck, racecheck, epochs, torch,
#                  pair (default: all). pair needs two GPUs: NCCL against the CPU, epochs by each
#                  transport, with and without registration and CUDA-aware MPI
#   --minutes      time limit from the start, after which steps are cut off; the table names them
#   --dry          runs without a GPU: builds all the same, then runs each step on the CPU or on an
#                  emulated device and tiny graphs; the table says so
#   --partitioner  partitioner of the graphs of epochs (default metis)
#   --jobs         parallel jobs of the build (default: one a core, with 2 GiB for each)
#   --scale        size of the graphs of epochs and torch (default 1, published size; 0.002 if dry)
# A step that fails or is cut off does not affect the others and keeps its measurements so far; the
# table names it.
# Exit codes: 0 all passed; 1 a step failed; 2 usage, or an unsuitable tool or bundle; 3 no CUDA
# device, also after a dry run in which all passed; 128 + N ended by signal N.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

fail() { echo "gpu_check.sh: $*" >&2; exit 2; }

SECONDS=0
root=$(dirname "$here")
bundle= out=$root/build/gpu_check build=$root/build/gpu call= dry=no minutes= scale= steps=
partitioner=metis jobs=
words=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    --dry) dry=yes; shift; continue ;;
    --call|--bundle|--out|--build|--steps|--minutes|--scale|--partitioner|--jobs)
      [ $# -ge 2 ] || fail "$1 needs a value" ;;
    -h|--help) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "$1 is not an option; see --help" ;;
  esac
  case $1 in
    --call) call=$2 ;;
    --bundle) bundle=$(realpath -m "$2") ;;
    --out) out=$(realpath -m "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --steps) steps=$2 ;;
    --minutes) minutes=$2 ;;
    --scale) scale=$2 ;;
    --partitioner) partitioner=$2 ;;
    --jobs) jobs=$2 ;;
  esac
  shift 2
done
case $call in
  1) default=tests,bench ;;
  2) default=oracle,memcheck,racecheck ;;
  3) default=epochs,torch ;;
  "") default=tests,bench,oracle,memcheck,racecheck,epochs,torch,pair ;;
  *) fail "--call is 1, 2 or 3" ;;
esac
steps=${steps:-$default}
[ -n "$minutes" ] || { [ -n "$call" ] && minutes=9.5 || minutes=100000; }
[ -n "$scale" ] || { [ $dry = yes ] && scale=0.002 || scale=1; }
for name in ${steps//,/ }; do
  case $name in
    tests|bench|oracle|memcheck|racecheck|epochs|torch|pair) ;;
    *) fail "--steps: there is no step $name" ;;
  esac
done
number='^[0-9]*\.?[0-9]+$'
[[ $minutes =~ $number ]] || fail "--minutes $minutes: not a number"
[[ $scale =~ $number ]] || fail "--scale $scale: not a number"  # names of folders contain it
case $partitioner in metis|contiguous) ;; *) fail "--partitioner is metis or contiguous" ;; esac
cd "$root" || exit 2
results=$build/results work=$build/gpu_check
mkdir -p "$out" "$results" "$work" || exit 2
say() { printf '\n== %s\n' "$*"; }

# A container may set these, which change the arithmetic or wait for each launch.
unset NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE CUDA_LAUNCH_BLOCKING
[ $dry = no ] || export CUDA_VISIBLE_DEVICES=  # so that a dry run is one everywhere

# Tools.
command -v cmake >/dev/null || fail "there is no cmake"
version=$(cmake --version | sed -n '1s/[^0-9]*//p')
[ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ] ||
  fail "CMake is $version; 3.25 or newer is needed"
python=$(command -v python3) || fail "there is no python3"
PATH=${CUDA_HOME:+$CUDA_HOME/bin:}$PATH:/usr/local/cuda/bin
export CUDACXX=${CUDACXX:-nvcc}  # so that the build uses the compiler that is tried here
CUDACXX=$(command -v "$CUDACXX") || fail "there is no nvcc: set CUDA_HOME"

compiler=${CXX:-c++}
command -v "$compiler" >/dev/null || fail "there is no C++ compiler $compiler"

# Checks that compilers, driver and device work together before it spends minutes on the build.
"$CUDACXX" -std=c++20 -arch=native -ccbin "${CUDAHOSTCXX:-$compiler}" -o "$build/probe" \
  "$here/gpu_check/probe.cu" >"$results/probe.log" 2>&1 ||
  { tail -n 5 "$results/probe.log" >&2; fail "nvcc cannot compile C++20 and cuBLAS's header"; }
architectures=() count=0 gpus=
if gpus=$("$build/probe" 2>"$results/probe.log"); then
  count=${gpus%%$'\n'*}
  gpus=${gpus#*$'\n'}
  # Building for this GPU only is faster, unless an earlier build was for all.
  grep -qs '^CMAKE_CUDA_ARCHITECTURES:[A-Z]*=80' "$build/CMakeCache.txt" ||
    architectures=(-DCMAKE_CUDA_ARCHITECTURES=native)
elif [ $dry = no ]; then
  echo "gpu_check.sh: this machine has no CUDA device: $(tail -n 1 "$results/probe.log")" >&2
  exit 3
else
  gpus="DRY RUN: no GPU; the CPU and an emulated device took its place, so times mean nothing"
fi

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
  [ -e "$bundle/MANIFEST" ] || fail "$bundle has no MANIFEST"
  demand() { awk -v name="$1" '$1 == name { print $2 }' "$bundle/MANIFEST"; }
  at_least() { [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
  here_machine=$(uname -m)
  [ "$(demand machine)" = "$here_machine" ] ||
    fail "the bundle is for $(demand machine), not $here_machine: make it on such a machine"
  here_libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }')
  at_least "$(demand libc)" "$here_libc" ||
    fail "the bundle needs GNU C library $(demand libc), this machine has ${here_libc:-another}:" \
      "make it on an older system"
  here_libstdcxx=$(grep -aoE 'GLIBCXX_[0-9]+(\.[0-9]+)+' \
    "$("$compiler" -print-file-name=libstdc++.so.6)" 2>/dev/null | sed 's/.*_//' | sort -Vu | tail -n 1)
  at_least "$(demand libstdc++)" "$here_libstdcxx" ||
    fail "the bundle needs libstdc++ with GLIBCXX_$(demand libstdc++), that of $compiler has" \
      "${here_libstdcxx:-none}: use a newer compiler (CXX), or make the bundle on an older system"
  cache=(-C "$bundle/cache.cmake")
fi

# The version that is measured, and the machine.
hash_sources() {
  find CMakeLists.txt cmake include src bench scripts tests -type f ! -name '*.pyc' -print0 | sort -z |
    xargs -0 cat | sha256sum | cut -c 1-12
}
commit=  # of this repository only, not of one into which the sources were unpacked
[ "$(git rev-parse --show-toplevel 2>/dev/null)" != "$root" ] || commit=$(git rev-parse --short HEAD)
if [ -n "$commit" ]; then
  git diff --quiet HEAD 2>/dev/null || commit="$commit with changes"
else
  commit="sources $(hash_sources)"
fi
if [ -s "$results/gpus.txt" ] && [ "$gpus" != "$(cat "$results/gpus.txt")" ]; then
  fail "$build holds results of $(head -n 1 "$results/gpus.txt"): give another folder by --build"
fi
echo "$gpus" >"$results/gpus.txt"
{
  echo "$gpus"
  echo "$count CUDA devices"
  nvidia-smi 2>/dev/null | grep -oE 'Driver Version: [0-9.]+' | head -n 1
  others=$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null | grep -c .)
  [ "$others" = 0 ] || echo "$others other processes used the GPUs at the start and affect the times"
  "$CUDACXX" --version | grep release
  "$compiler" --version | head -n 1
  echo "$(nproc) CPU cores: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
  date -u +%Y-%m-%d
} >"$results/machine.txt"

failed=no
write_table() {
  "$python" -B "$here/gpu_check/table.py" "$results" >/dev/null && cp "$results/table.md" "$out" &&
    { tar -C "$build" -czf "$build/results.tar.gz" results || [ $? = 1 ]; } &&  # 1: a log has grown
    mv "$build/results.tar.gz" "$out"
}
note() {  # STEP RESULT SECONDS: replaces the step's earlier result
  touch "$results/steps.tsv"
  grep -v "^$1	" "$results/steps.tsv" >"$results/steps.new"
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$commit" >>"$results/steps.new"
  mv "$results/steps.new" "$results/steps.tsv"
  write_table || failed=yes
}

running= child= preparing= begun=0
cut_off() {  # SIGNAL NUMBER
  trap '' TERM INT HUP
  local process
  for process in $child $preparing; do
    kill -TERM "$process" 2>/dev/null
    wait "$process"
  done
  [ -z "$preparing" ] || note graphs "cut off by SIG$1" $((SECONDS - preparing_since))
  [ -z "$running" ] || note "$running" "cut off by SIG$1" $((SECONDS - begun))
  echo "gpu_check.sh: cut off by SIG$1${running:+ in $running}; the table is $out/table.md" >&2
  exit $((128 + $2))
}
trap 'cut_off TERM 15' TERM
trap 'cut_off INT 2' INT
trap 'cut_off HUP 1' HUP

end=$(awk -v minutes="$minutes" 'BEGIN { print int(60 * minutes) }')
step() {  # step NAME SECONDS RESULT_FILE COMMAND...
  local name=$1 limit=$2 file=$3 result=passed status
  shift 3
  say "$name"
  if [ "$SECONDS" -ge "$end" ]; then
    note "$name" "not run: the $minutes minutes are over" 0
    failed=yes
    return 1
  fi
  [ "$limit" -le $((end - SECONDS)) ] || limit=$((end - SECONDS))
  [ -z "$file" ] || rm -f "$results/$file"  # so that an earlier run's file is not taken for this one's
  begun=$SECONDS running=$name
  note "$name" "begun at $(date -u +%H:%M:%S) UTC, not ended" 0
  timeout --kill-after=10 "$limit" "$@" >"$results/$name.log" 2>&1 </dev/null &
  child=$!
  wait $child
  status=$?
  child= running=
  if [ $status != 0 ] && [ $((SECONDS - begun)) -ge "$limit" ]; then
    result="cut off after $limit s"
  elif [ $status != 0 ]; then
    result="failed: exit code $status"
  elif [[ " tests memcheck racecheck " == *" $name "* ]]; then
    if [ $dry = yes ]; then
      result="dry: $(grep -c '^\[  SKIPPED \].* ms)$' "$results/$name.log") tests skip without a device"
    elif grep -q 'no CUDA device' "$results/$name.log" ||
         ! grep -q '^\[       OK \]' "$results/$name.log"; then
      result="failed: tests did not run"
    fi
  fi
  case $result in
    passed) [ $dry = no ] || [ -z "$file" ] || result="passed, dry" ;;
    dry:*) ;;
    *) failed=yes; tail -n 5 "$results/$name.log" >&2 ;;
  esac
  note "$name" "$result" $((SECONDS - begun))
  echo "$name $result"
  [[ $result = passed* ]]
}
wanted() { [[ ,$steps, == *,$1,* ]]; }

# The build.
if [ -z "$jobs" ]; then
  kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
  most=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)  # limit of a container
  [[ ! $most =~ ^[0-9]+$ ]] || [ $((most / 1024)) -ge "$kib" ] || kib=$((most / 1024))
  jobs=$((kib / 2097152 + 1))
  [ "$jobs" -lt "$(nproc)" ] || jobs=$(nproc)
fi
generator=() targets=(heliograph_command heliograph_device_bench test_cuda_device) mpi=OFF
bench=("$build/bench/heliograph_device_bench") device=cuda quick=() few=()
command -v ninja >/dev/null && generator=(-G Ninja)
[[ ,$steps, != *,pair,* ]] || mpi=AUTO
if [ $dry = yes ]; then
  targets+=(device_bench_emulated) device=cpu quick=(--quick) few=(--epochs 4)
  bench=("$build/tests/device_bench_emulated" --rows=64 --outputs=33 --degrees=5,20 --widths=40,41
         --copy-mib=1 --gemm=32 --gradient-rows=8 --seconds=0.001)
fi
# A copied tree may have new times, which would build everything again.
built="$(hash_sources) $mpi $dry"
if [ "$built" = "$(cat "$build/built" 2>/dev/null)" ]; then
  say "The build has these sources"
elif ! step configure 36000 "" cmake -S "$root" -B "$build" "${generator[@]}" "${cache[@]}" \
    "${architectures[@]}" -DHELIOGRAPH_MPI=$mpi -DHELIOGRAPH_CUDA=ON -DHELIOGRAPH_BENCHMARKS=ON \
    -DBUILD_TESTING=ON ||
  ! step build 36000 "" cmake --build "$build" -j "$jobs" --target "${targets[@]}"; then
  echo "gpu_check.sh: the build failed or was cut off; see configure.log and build.log in $results." \
    "The same call again goes on with it" >&2
  exit 1
fi
echo "$built" >"$build/built"

command=$build/heliograph
tests=$build/tests/test_cuda_device
making=("$python" -B "$here/gpu_check/epochs.py" --heliograph "$command" --work "$work/epochs"
        --device $device "${few[@]}" --scale "$scale" --partitioner "$partitioner")

# Graphs are made and partitioned on the CPU while the first steps run on the GPU. What is complete
# when a call ends is not made again; the third makes what it lacks as it comes to it.
if { [ -n "$call" ] || wanted epochs; } && [ "$call" != 3 ] && [ "$SECONDS" -lt "$end" ]; then
  preparing_since=$SECONDS
  note graphs "begun at $(date -u +%H:%M:%S) UTC, not ended" 0
  timeout --kill-after=10 $((end - preparing_since)) "${making[@]}" --prepare \
    --json "$results/graphs.json" >"$results/graphs.log" 2>&1 </dev/null &
  preparing=$!
fi
await_graphs() {
  [ -n "$preparing" ] || return
  say graphs
  local result=passed
  [ "$call" != 1 ] || kill -TERM $preparing 2>/dev/null  # the next call goes on with them
  wait $preparing || { result="failed: exit code $?"; tail -n 5 "$results/graphs.log" >&2; }
  if [ "$result" = passed ]; then
    [ $dry = no ] || result="passed, dry"
  elif [ "$call" = 1 ] || [ "$SECONDS" -ge "$end" ]; then
    result="incomplete: the next call goes on"
  else
    failed=yes
  fi
  preparing=
  note graphs "$result" $((SECONDS - preparing_since))
  echo "graphs $result"
}
if wanted tests; then
  step tests 240 "" "$tests"
fi
if wanted bench; then
  step bench 240 bench.json "${bench[@]}" --json="$results/bench.json"
fi
if wanted oracle; then
  step oracle 240 oracle.json "$python" -B "$here/gpu_check/oracle.py" --heliograph "$command" \
    --device $device "${quick[@]}" --work "$work/oracle" --json "$results/oracle.json"
fi
# The tool slows kernels ten- to a hundredfold, so whole runs are left out, and races are sought only
# in kernels whose warps share memory.
declare -A filter=(
  [memcheck]='-CudaRun*:*CudaGraphs*:*CudaTraining*:NcclSelf*'
  [racecheck]='AggregateTwin.Halo*:HubTwin*:AttentionTwin*:SparseTwin*:LossTwin*:RowTwin*:CombineTwin*')
for tool in memcheck racecheck; do
  wanted $tool || continue
  if [ $dry = yes ]; then
    note $tool "not run: dry" 0
  elif command -v compute-sanitizer >/dev/null; then
    step $tool 170 "" compute-sanitizer --tool $tool --error-exitcode 9 "$tests" \
      --gtest_filter="${filter[$tool]}"
  else
    note $tool "not run: there is no compute-sanitizer" 0
  fi
done
await_graphs
if wanted epochs; then
  [ "$call" = 3 ] && limit=330 || limit=3600  # PyTorch gets the rest of the call
  step epochs $limit epochs.json "${making[@]}" --json "$results/epochs.json"
fi
if wanted torch; then
  [ "$call" = 3 ] && limit=120 || limit=1800
  lacks=$("$python" -c 'import numpy, torch' 2>&1) && lacks=
  for graph in reddit products; do
    if [ -n "$lacks" ]; then
      note "torch_$graph" "not run: $(tail -n 1 <<<"$lacks")" 0
    elif [ ! -d "$work/epochs/$graph-$scale" ]; then
      note "torch_$graph" "not run: the step epochs has left no graph of scale $scale" 0
      failed=yes
    else
      step "torch_$graph" $limit "torch_$graph.json" "$python" -B "$root/bench/torch_epoch.py" \
        --heliograph "$command" --data "$work/epochs/$graph-$scale" --device $device \
        --json "$results/torch_$graph.json"
    fi
  done
fi
if wanted pair; then
  if [ "$count" -lt 2 ]; then
    note pair "not run: it takes two GPUs" 0
  elif [[ $("$command" info) != *"nccl built"* ]]; then
    note pair "not run: built without NCCL" 0
  else
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # as containers do
    ranks=2
    [ "$count" -lt 4 ] || ranks=2,4
    step nccl 300 nccl.json "$python" -B "$here/gpu_check/oracle.py" --heliograph "$command" \
      --transport nccl --ranks $ranks --work "$work/nccl" --json "$results/nccl.json"
    step pair 600 pair.json "${making[@]}" --pair --json "$results/pair.json"
  fi
fi

say "Table"
write_table && cat "$out/table.md" || failed=yes
case $call in
  1|2) echo "Next: $0 $(sed "s/--call $call/--call $((call + 1))/" <<<"${words[*]}")" ;;
  3) echo "All three calls are done: the results are in $out/table.md, and docs/gpu.md says what" \
       "needs two GPUs." ;;
esac
[ "$failed" = no ] || exit 1
[ $dry = no ] || exit 3
