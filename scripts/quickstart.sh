#!/usr/bin/env bash
# From a fresh Debian 12 machine to a first result: installs what is missing, builds the command,
# makes a real graph (Debian's packages and what they depend on), trains on it over 4 ranks with
# fp32 and with 1-bit exchange, and prints the two side by side. Safe to run again; everything it
# writes lies in build/quickstart and runs/quickstart.
# Environment: EPOCHS (default 60), RANKS (default 4).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

epochs=${EPOCHS:-60}
ranks=${RANKS:-4}
build=build/quickstart
runs=runs/quickstart

say "Installing what is missing"
bash scripts/install_dependencies.sh build quickstart
python=$(find_python)

say "Building the command"
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
  -DHELIOGRAPH_BENCHMARKS=OFF >/dev/null
cmake --build $build --target heliograph_command
heliograph=$build/heliograph

say "Making the graph: Debian packages, to be sorted into Debian's sections"
mkdir -p $runs
$python experiments/datasets/debian_packages.py --target section --out $runs/debian_section.npz
$heliograph import --data $runs/debian_section.npz --out $runs/debian_section --overwrite

train() {  # name, further flags
  local name=$1
  shift
  say "Training: $name"
  $heliograph train --data $runs/debian_section --split 0 --parts "$ranks" --model sage \
    --layers 2 --hidden 128 --dropout 0.3 --lr 0.01 --epochs "$epochs" --eval-every 5 --seed 1 \
    --out "$runs/$name" --overwrite --summary "$runs/$name.json" "$@"
}
train fp32 --bits 32
train 1-bit --bits 1

say "The same model, data, split and seed; $ranks ranks; $epochs epochs"
$python experiments/print_table.py "fp32 exchange=$runs/fp32.json" "1-bit exchange=$runs/1-bit.json"
cat <<END

test score: share of test packages put into the right one of 58 sections, at the epoch that was
best on the validation packages. exchanged an epoch: bytes of node rows sent between the ranks.
Runs, predictions and metrics lie in $runs.
END
