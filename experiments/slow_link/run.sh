#!/usr/bin/env bash
# Measures the effect of 1 bit and staleness on a slow network: shapes the links so that a
# synchronous fp32 epoch waits for node rows at least 10 times as long as it computes, trains with
# fp32 and 1 bit, synchronous and one epoch stale, and prints a table whose last row is fp32 over
# unshaped links. Meant for graphs whose halo rows outweigh the weight gradients.
# Usage: experiments/slow_link/run.sh DATA OUT [flags of heliograph train ...]
# Environment: HELIOGRAPH (the command), RATIO (default 10), RANKS (4), EPOCHS (40).
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]}: line $LINENO: exit code $?" >&2' ERR
[ $# -ge 2 ] || { sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$1
out=$2
shift 2
ratio=${RATIO:-10}
ranks=${RANKS:-4}
epochs=${EPOCHS:-40}
heliograph=${HELIOGRAPH:-$here/../../build/release/heliograph}
[ -x "$heliograph" ] || { echo "$heliograph is not built: set HELIOGRAPH to the command" >&2; exit 1; }
mkdir -p "$out"

# The flags that are given override these.
cat > "$out/flags.json" <<END
{"parts": $ranks, "model": "sage", "layers": 3, "hidden": 256, "dropout": 0.3, "lr": 0.005,
 "seed": 1, "eval-every": 10, "quiet": true}
END
train() {  # name, epochs, further flags
  local name=$1 count=$2
  shift 2
  "$heliograph" train --config "$out/flags.json" --data "$data" --epochs "$count" \
    --out "$out/$name" --overwrite --summary "$out/$name.json" "$@"
}

echo "Measuring fp32 without shaped links"
train free "$epochs" --bits 32 "$@"
read -r measured gbps < <(python3 "$here/choose_link.py" "$out/free.json" "$ratio")
for attempt in 1 2 3 4 5; do
  link=$gbps
  train probe 12 --bits 32 --link-gbps "$link" "$@"
  read -r measured gbps < <(python3 "$here/choose_link.py" "$out/probe.json" "$ratio" "$link")
  echo "Links of $link Gbit/s: waiting : computing = $measured"
  # The first guess assumes equally busy links, so probes go on until the ratio is within 10 %.
  if awk "BEGIN { exit !($measured >= $ratio && $measured < 1.1 * $ratio) }"; then break; fi
  if [ "$attempt" = 5 ] && awk "BEGIN { exit !($measured < $ratio) }"; then
    echo "no link speed was found at which an epoch waits $ratio : 1" >&2
    exit 1
  fi
done

shape=(--link-gbps "$link")
train fp32-S0 "$epochs" --bits 32 --staleness 0 "${shape[@]}" "$@"
train fp32-S1 "$epochs" --bits 32 --staleness 1 --stale-sites all "${shape[@]}" "$@"
train 1bit-S0 "$epochs" --bits 1 --staleness 0 "${shape[@]}" "$@"
train 1bit-S1 "$epochs" --bits 1 --staleness 1 --stale-sites all "${shape[@]}" "$@"

read -r measured _ < <(python3 "$here/choose_link.py" "$out/fp32-S0.json" "$ratio" "$link")
{
  echo "$ranks ranks, each directed link $link Gbit/s; fp32, S = 0: waiting : computing = $measured"
  echo
  python3 "$here/../print_table.py" --columns epoch,p95,waiting,reduce,faster,rows,gradients,total,score \
    "fp32, S = 0=$out/fp32-S0.json" "fp32, S = 1=$out/fp32-S1.json" \
    "1-bit, S = 0=$out/1bit-S0.json" "1-bit, S = 1=$out/1bit-S1.json" \
    "fp32, S = 0, links of memory speed=$out/free.json"
} | tee "$out/table.md"
