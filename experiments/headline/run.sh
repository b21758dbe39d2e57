#!/usr/bin/env bash
# Measures how much faster 1-bit exchange is, synchronous and one epoch stale, than vanilla fp32 on
# a network as slow as in the published measurement (waiting : computing = 41 : 1), with a GCN of 3
# layers of 128 on a products-shaped graph and 4 hosts. docs/headline.md explains the results.
# Usage: experiments/headline/run.sh OUT [--transport mpi|threads] [--quick] [--scale S]
#        [flags of measure.py ...]
#   --transport mpi      MPI over 4 emulated hosts (experiments/emulated_cluster.sh); needs root
#   --transport threads  threads of one process with links shaped by the command; needs no root
#   --quick              a small graph and few epochs: under 3 minutes, for a first look
#   --scale S            size of the graph; 1 is ogbn-products (default 0.04; 0.01 with --quick)
# Environment: HELIOGRAPH (the command), PYTHON (default: the first with Matplotlib).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
case ${1-} in
  -h | --help) usage; exit 0 ;;
  '' | -*) usage >&2; exit 2 ;;
esac
out=$1
shift
transport=mpi quick='' scale=''
flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --transport) transport=${2:?--transport needs mpi or threads}; shift ;;
    --quick) quick=yes ;;
    --scale) scale=${2:?--scale needs a number}; shift ;;
    *) flags+=("$1") ;;
  esac
  shift
done
if [ -n "$quick" ]; then
  flags=(--epochs 15 --slow-epochs 3 --curve-epochs 4 --score-epochs 20 --factors "4,16"
         "${flags[@]}")
fi
scale=${scale:-${quick:+0.01}}
scale=${scale:-0.04}
heliograph=${HELIOGRAPH:-$here/../../build/release/heliograph}
[ -x "$heliograph" ] || { echo "$heliograph is not built: set HELIOGRAPH to the command" >&2; exit 1; }
python=${PYTHON:-}
for candidate in python3 /usr/bin/python3; do
  [ -n "$python" ] || ! "$candidate" -c 'import matplotlib' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || { echo "no Python here has Matplotlib: apt-get install python3-matplotlib" >&2; exit 1; }

mkdir -p "$out"
data=$out/products-$scale
[ -d "$data" ] || "$heliograph" generate --preset products --scale "$scale" --seed 1 --out "$data"
"$heliograph" partition --data "$data" --parts 4 --partitioner metis --owners "$out/partition-$scale" \
  --overwrite --quiet
exec "$python" "$here/measure.py" --data "$data" --partition "$out/partition-$scale" --out "$out" \
  --transport "$transport" --heliograph "$heliograph" "${flags[@]}"
