#pragma once

#include <algorithm>
#include <string>

namespace heliograph::cli {

/// A flag of PipeGCN, BNS-GCN, Sylvie, or the examples of DGL, PyG and OGB.
struct ForeignFlag {
  const char* name;    ///< Without dashes in front.
  const char* answer;  ///< What to give instead, or why there is nothing to give.
};

inline constexpr ForeignFlag kForeignFlags[] = {
    {"base-bit", "use --bits"},
    {"bit", "use --bits"},
    {"datatype", "use --bits 32 for fp32"},
    {"quant", "use --bits"},
    {"enable-pipeline", "use --staleness 1 --stale-sites all"},
    {"pipeline", "use --staleness 1 --stale-sites all"},
    {"async", "use --staleness 1 --stale-sites all"},
    {"fixed-synchro", "use --sync-every"},
    {"feat-corr", "smoothing of stale values is not built"},
    {"grad-corr", "smoothing of stale values is not built"},
    {"corr-momentum", "smoothing of stale values is not built"},
    {"sampling-rate",
     "sampling of boundary nodes is not built: all are exchanged, in as few as --bits 1"},
    {"use-pp", "this is the default; --no-precompute turns it off"},
    {"n-partitions", "use --parts"},
    {"num-parts", "use --parts"},
    {"num-partitions", "use --parts"},
    {"parts-per-node", "the launcher decides it: mpirun or torchrun"},
    {"partition-method", "use --partitioner"},
    {"part-method", "use --partitioner"},
    {"partition-obj", "use --objective"},
    {"convert-partitions", "nothing is converted: train reads the shards of partition --out"},
    {"skip-partition",
     "use --partitioner file:PATH, or train on shards that heliograph partition --out has written"},
    {"k", "use --parts"},
    {"num-clients", "use --parts"},
    {"num-gpus", "use --parts"},
    {"num-trainers", "use --parts"},
    {"nprocs", "use --parts"},
    {"ranks", "use --parts"},
    {"threads", "use --threads-per-rank"},
    {"quant-bits", "use --bits"},
    {"num-bits", "use --bits"},
    {"use-quantization", "use --bits"},
    {"grad-bits", "use --gradient-bits"},
    {"covers", "use --exchange cover"},
    {"stale", "use --staleness"},
    {"grad-clip", "use --clip-norm"},
    {"gradient-clipping", "use --clip-norm"},
    {"max-norm", "use --clip-norm"},
    {"data-dir", "use --data"},
    {"n-hidden", "use --hidden"},
    {"num-hidden", "use --hidden"},
    {"hidden-channels", "use --hidden"},
    {"hidden-dim", "use --hidden"},
    {"n-layers", "use --layers"},
    {"num-layers", "use --layers"},
    {"num-hops", "use --hops"},
    {"n-linear",
     "use --output-linear for one linear layer at the end, and one less in --layers, which leaves "
     "it out; more are not built"},
    {"use-linear", "use --residual linear"},
    {"num-heads", "use --heads"},
    {"num-out-heads", "use --output-heads"},
    {"attn-drop", "use --attention-dropout"},
    {"feat-drop", "use --dropout"},
    {"in-drop", "use --dropout"},
    {"n-epochs", "use --epochs"},
    {"num-epochs", "use --epochs"},
    {"learning-rate", "use --lr"},
    {"wd", "use --weight-decay"},
    {"optim", "use --optimizer"},
    {"early-stopping", "use --patience"},
    {"early-stop", "use --patience"},
    {"runs", "experiments/convergence/sweep.py trains several seeds"},
    {"seeds", "experiments/convergence/sweep.py trains several seeds"},
    {"n-runs", "experiments/convergence/sweep.py trains several seeds"},
    {"train-ratio", "use --split random:T/V/E"},
    {"aggr", "--model decides it: sage takes the mean, gin the sum"},
    {"aggregator-type", "--model decides it: sage takes the mean, gin the sum"},
    {"self-loop", "models that need self-loops add them"},
    {"add-self-loop", "models that need self-loops add them"},
    {"no-eval", "use --eval-every 0"},
    {"eval", "every epoch is scored; --eval-every N scores every Nth"},
    {"log-every",
     "--out keeps every epoch in metrics.jsonl; --eval-every says how often scores are made"},
    {"fix-seed", "every run has a seed: use --seed"},
    {"dataset", "use --data with a path"},
    {"data-path", "use --data with a path"},
    {"graph-name", "use --data with a path"},
    {"part-config", "use --data with the folder of shards"},
    {"part-path", "use --data with the folder of shards"},
    {"partition-dir", "use --data with the folder of shards"},
    {"n-feat", "the data set says it"},
    {"n-class", "the data set says it"},
    {"n-classes", "the data set says it"},
    {"num-classes", "the data set says it"},
    {"n-train", "the data set says it"},
    {"backend", "use --transport, or none: the launcher decides it"},
    {"port", "the launcher says it: MASTER_PORT"},
    {"master-addr", "the launcher says it: MASTER_ADDR"},
    {"world-size", "use --parts for threads; mpirun or torchrun say it for processes"},
    {"rank", "the launcher says it: RANK"},
    {"output", "use --out"},
    {"save-dir", "use --out"},
    {"resume-from", "use --resume"},
    {"ckpt", "train takes --resume or --init-from, and eval its own flag for checkpoints"},
    {"load", "train takes --resume or --init-from, and eval its own flag for checkpoints"},
    {"node-rank", "the launcher says it: RANK"},
    {"local-rank", "the launcher says it: LOCAL_RANK"},
    {"ip-config", "mpirun --hostfile or torchrun say it"},
    {"gpu", "use --device cuda"},
    {"batch-size", "every epoch is one step on the whole graph"},
    {"fanout", "every neighbour counts: no neighbours are sampled"},
    {"fan-out", "every neighbour counts: no neighbours are sampled"},
    {"num-neighbors", "every neighbour counts: no neighbours are sampled"},
};

/// The answer to a flag, null if the table has none. Hyphens and underscores are equal in `name`.
inline const char* foreign_flag_answer(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (const ForeignFlag& flag : kForeignFlags) {
    if (name == flag.name) return flag.answer;
  }
  return nullptr;
}

}  // namespace heliograph::cli
