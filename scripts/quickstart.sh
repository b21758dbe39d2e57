#!/usr/bin/env bash
# From a fresh Debian 12 machine to a first result: installs missing packages, builds the command,
# makes a real graph (Debian's packages and their dependencies), trains on it over 4 ranks with fp32
# and with 1-bit exchange, and prints both side by side. Takes 6 to 8 minutes on two cores. Safe to
# repeat; writes only to build/quickstart and runs/quickstart. The command is then
# build/quickstart/heliograph; its last lines say how to install it.
# Environment: EPOCHS (default 40), RANKS (default 4).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_no_arguments "$@"

epochs=${EPOCHS:-40}
ranks=${RANKS:-4}
build=build/quickstart
runs=runs/quickstart
slow_gbps=0.1

say "Installing missing packages"
bash scripts/install_dependencies.sh build quickstart
python=$(find_python)

say "Building the command"  # for the CPU only, which builds faster
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
  -DHELIOGRAPH_BENCHMARKS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DHELIOGRAPH_CUDA=OFF >/dev/null
cmake --build $build --target heliograph_command
heliograph=$build/heliograph

say "Making the graph: Debian packages, to be classified into Debian's sections"
mkdir -p $runs
$python experiments/datasets/debian_packages.py --target section --out $runs/debian_section.npz
$heliograph import --data $runs/debian_section.npz --out $runs/debian_section --overwrite

train() {  # name, epochs, further flags
  local name=$1 count=$2
  shift 2
  say "Training: $name"
  $heliograph train --data $runs/debian_section --split 0 --parts "$ranks" --model sage \
    --layers 3 --hidden 256 --dropout 0.3 --lr 0.01 --epochs "$count" --eval-every 5 --seed 1 \
    --out "$runs/$name" --overwrite --summary "$runs/$name.json" "$@"
}
train fp32 "$epochs" --bits 32
train 1-bit "$epochs" --bits 1
# A slow network changes only times, which a few epochs show.
train fp32-slow 6 --bits 32 --link-gbps $slow_gbps
train 1-bit-slow 6 --bits 1 --link-gbps $slow_gbps

say "The same model, data, split and seed over $ranks ranks, $epochs epochs"
$python experiments/print_table.py "fp32 exchange=$runs/fp32.json" "1-bit exchange=$runs/1-bit.json"
cat <<END

test score: share of the test packages that got the right one of 58 sections, at the epoch that was
best on the validation packages. Bytes are those that all ranks send in an epoch: rows of nodes at the
boundaries, which have the bits of the exchange, and weight gradients, which are fp32 in both.
END

say "The same with every link between two ranks limited to $slow_gbps Gbit/s"
$python experiments/print_table.py --columns epoch,waiting,faster \
  "fp32 exchange=$runs/fp32-slow.json" "1-bit exchange=$runs/1-bit-slow.json"
cat <<END

waiting: part of an epoch in which a rank has nothing to compute because it waits for bytes.
Runs, predictions and metrics are in $runs. The command is $heliograph; to install it and the
library: cmake --install $build --prefix DIR
END
