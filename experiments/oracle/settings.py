"""Graphs and settings on which oracle/same_bits.py compares two commands, as flags of the command.
Most settings combine several features."""

# The call that makes each graph, without --out. It may use a graph above it.
GRAPHS = {
    "dense": "generate --preset reddit --scale 0.01 --seed 1",  # 602 columns, 41 classes
    "narrow": "generate --nodes 3000 --edges 15000 --features 12 --classes 2 --seed 2",  # auc
    "tags": "generate --preset yelp --scale 0.004 --seed 3",  # 300 columns, multi-label
    "words": "import --data {sparse}",  # sparse features, symmetric
    "arrows": "import --data {sparse} --keep-direction",
    "weighted": "import --data {weighted}",  # weights of edges, sparse features
    "shards": "partition --data {dense} --parts 4 --normalize standard",
    "cora": "import --data {cora}",
}

TRAIN = ("train --data {graph} --out {run} --summary {summary} --lr 0.01 --seed 1 "
         "--epochs {epochs} --checkpoint-every {epochs}")
RESUME = "train --resume {run} --summary {summary} --epochs 8"
EVAL = "eval --checkpoint {run}/checkpoints/epoch-000004 --data {graph} --out {eval}"
RANDOM = "--split random:60/20/20"

# For each setting the graph, flags of TRAIN and, optionally, a later call. In settings that begin
# with BEFORE, the command BEFORE trains for both sides.
SETTINGS = {
    "gcn, 1 rank": ("dense", "--model gcn --layers 2"),
    "gcn, 1 layer, 2 ranks": ("dense", "--model gcn --layers 1 --parts 2"),
    "gcn, 16 bits, 2 ranks": ("dense", "--model gcn --parts 2 --bits 16"),
    "gcn, 8 bits, 4 ranks": ("dense", "--model gcn --parts 4 --bits 8 --hidden 32"),
    "gcn, 4 bits, 7 ranks": ("dense", "--model gcn --parts 7 --bits 4 --layers 2"),
    "sage, 1 rank": ("dense", "--model sage"),
    "sage, 1 layer, 1 bit": ("narrow", "--model sage --layers 1 --parts 4 --bits 1"),
    "sage, 4 layers, 7 ranks": ("dense", "--model sage --layers 4 --parts 7 --hidden 32"),
    "sage, 2 bits, 4 ranks": ("dense", "--model sage --parts 4 --bits 2 --dropout 0"),
    "sage, 1 bit, 7 ranks": ("dense", "--model sage --parts 7 --bits 1 --layers 2"),
    "8 bits forward, 2 back": ("dense", "--parts 4 --bits-forward 8 --bits-backward 2"),
    "1 bit forward, fp32 back": ("dense", "--model gcn --parts 4 --bits-forward 1"),
    "fp32 forward, 4 bits back": ("dense", "--parts 2 --bits-backward 4"),
    "S = 1": ("dense", "--parts 4 --staleness 1 --stale-sites all"),
    "S = 2, 1 bit, sync": ("dense", "--model gcn --parts 4 --bits 1 --staleness 2 --stale-sites all --sync-every 4"),
    "S = 2, lowest backward": ("dense", "--parts 4 --bits 1 --staleness 2"),
    "S = 1, 8 bits, warm-up": ("dense", "--parts 2 --bits 8 --staleness 1 --stale-sites all --warmup-epochs 3"),
    "S = 2, 2 bits, 4 layers": ("tags", "--layers 4 --parts 7 --bits 2 --staleness 2 --stale-sites all"),
    "inductive, standardised": ("dense", "--parts 4 --bits 1 --inductive --normalize standard"),
    "inductive, S = 1": ("dense", "--model gcn --parts 2 --inductive --staleness 1 --stale-sites all"),
    "sparse gcn, 1 bit": ("words", f"--model gcn --parts 4 --bits 1 {RANDOM} --stratified"),
    "sparse sage, no precompute": ("words", f"--parts 2 --bits 8 {RANDOM} --no-precompute"),
    "sparse rows, S = 1": ("words", f"--parts 4 {RANDOM} --normalize row --staleness 1 --stale-sites all"),
    "sparse, inductive": ("words", f"--parts 4 --bits 4 {RANDOM} --inductive --dropout 0"),
    "directed gcn": ("arrows", f"--model gcn --parts 4 --bits 1 {RANDOM}"),
    "directed sage, S = 2": ("arrows", f"--parts 7 --bits 8 {RANDOM} --staleness 2 --stale-sites all --hidden 64"),
    "directed, no precompute": ("arrows", f"--parts 2 {RANDOM} --no-precompute --model gcn"),
    "weighted gcn, 1 bit": ("weighted", f"--model gcn --parts 4 --bits 1 {RANDOM}"),
    "weighted sage, S = 1": ("weighted", f"--parts 4 --bits 4 {RANDOM} --staleness 1 --stale-sites all"),
    "weighted gin, reproducible": ("weighted", f"--model gin --parts 2 {RANDOM} --reproducible"),
    "gat, 1 bit forward": ("dense", "--model gat --heads 4 --hidden 32 --parts 4 --bits-forward 1 "
                                    "--bits-backward 4 --attention-dropout 0.2"),
    "gat-sep, S = 1": ("words", f"--model gat-sep --heads 2 --hidden 32 --parts 2 --bits 8 {RANDOM} "
                                "--staleness 1 --stale-sites all"),
    "gatv2, 8 bits": ("narrow", "--model gatv2 --heads 2 --hidden 16 --parts 4 --bits 8"),
    "multi-label gcn": ("tags", "--model gcn --parts 4 --bits 1 --layers 2"),
    "multi-label sage, residual": ("tags", "--parts 4 --residual --eval-every 3"),
    "residual, no norm": ("dense", "--model gcn --parts 4 --layers 4 --residual --norm none"),
    "no norm, weight decay, clip": ("dense", "--parts 2 --norm none --weight-decay 0.01 "
                                             "--clip-norm 0.5 --schedule cosine"),
    "bf16 storage, 1 rank": ("dense", "--model gcn --aggregate-storage bf16"),
    "bf16 storage, 1 bit": ("dense", "--parts 4 --bits 1 --aggregate-storage bf16 --layers 2"),
    "bf16 storage, no precompute": ("narrow", "--parts 2 --aggregate-storage bf16 "
                                              "--no-precompute --no-transform-first"),
    "reproducible, 1 rank": ("dense", "--model gcn --reproducible --hidden 32"),
    "reproducible, 7 ranks": ("dense", "--parts 7 --reproducible --hidden 32"),
    "reproducible, sparse, 1 bit": ("words", f"--parts 4 --bits 1 {RANDOM} --reproducible"),
    "no precompute, gcn": ("dense", "--model gcn --parts 4 --bits 1 --no-precompute"),
    "no precompute, widening": ("narrow", "--parts 4 --bits 8 --no-precompute --hidden 64"),
    "no transform first, gcn": ("dense", "--model gcn --parts 4 --bits 8 --no-transform-first"),
    "no transform first, sage": ("tags", "--parts 4 --no-transform-first --no-precompute"),
    "auc, step schedule": ("narrow", "--model gcn --parts 4 --metric auc --schedule step "
                                     "--step-size 2"),
    "adamw, warm-up, smoothing, balanced": (
        "dense", "--model gcn --parts 4 --bits 4 --optimizer adamw --weight-decay 0.1 --lr-warmup 2 "
                 "--label-smoothing 0.1 --class-weights balanced"),
    "ap": ("narrow", "--parts 4 --metric ap"),
    "gin, BatchNorm": ("dense", "--model gin --parts 4 --bits 1 --norm batch --eps-learned"),
    "appnp": ("dense", "--model appnp --parts 4 --bits 4 --staleness 1 --stale-sites all"),
    "dagnn, sparse": ("words", f"--model dagnn --parts 4 --bits 1 {RANDOM} --hops 4"),
    "jknet, maximum": ("tags", "--model jknet --parts 2 --bits 8 --jk max"),
    "gcnii": ("dense", "--model gcnii --parts 4 --layers 4 --bits 2"),
    "pre-norm": ("dense", "--parts 4 --bits 1 --pre-norm --residual --input-linear --output-linear "
                          "--feed-forward 2"),
    "random parts, small chunks": ("dense", "--parts 4 --partitioner random --eval-chunk-mib 1"),
    "volume, cluster order": ("dense", "--parts 4 --bits 1 --objective volume --balance-train "
                                       "--node-order cluster --model gcn"),
    "contiguous, random order, early stop": ("narrow", "--parts 7 --partitioner contiguous "
                                                       "--node-order random --patience 1"),
    "1 thread a rank": ("dense", "--parts 2 --bits 1 --threads-per-rank 1"),
    "2 threads a rank": ("dense", "--parts 4 --bits 1 --threads-per-rank 2"),
    "2 threads, 1 rank, gcn": ("dense", "--model gcn --threads-per-rank 2"),
    "shards": ("shards", "--bits 1"),
    "resumed": ("dense", "--parts 4 --bits 1", RESUME),
    "resumed, S = 2": ("dense", "--model gcn --parts 4 --bits 2 --staleness 2 --stale-sites all", RESUME),
    "resumed, S = 1, directed": ("arrows", f"--parts 2 {RANDOM} --staleness 1 --stale-sites all", RESUME),
    "resumed, inductive": ("tags", "--parts 4 --bits 8 --inductive --reproducible", RESUME),
    "BEFORE's checkpoint": ("dense", "--parts 4 --bits 1", RESUME),
    "BEFORE's checkpoint, S = 2": ("dense", "--parts 4 --bits 2 --staleness 2 --stale-sites all", RESUME),
    "BEFORE's checkpoint, 1 rank, sparse": ("words", f"--model gcn {RANDOM}", RESUME),
    "eval": ("dense", "--parts 4 --bits 1", EVAL),
    "eval on 7 ranks": ("tags", "--model gcn --parts 2", EVAL + " --parts 7"),
    "eval, reproducible, auc": ("narrow", "--parts 4",
                                EVAL + " --parts 1 --reproducible --metric auc"),
    "cora, gcn, 1 bit": ("cora", f"--model gcn --layers 2 --parts 4 --bits 1 {RANDOM}"),
    "cora, sage, S = 1": ("cora", f"--parts 7 --bits 8 --staleness 1 --stale-sites all {RANDOM} --normalize row"),
    "cora, reproducible": ("cora", f"--parts 4 --reproducible --hidden 64 {RANDOM}"),
}
