#include "train/plan/memory_needs.hpp"

#include <algorithm>
#include <vector>

#include "graph/rows.hpp"
#include "layers/network.hpp"
#include "quant/kept_row.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/launch.hpp"
#include "train/options/given.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/plan/row_blocks.hpp"
#include "train/verifier.hpp"
#include "train/weight_update.hpp"

namespace heliograph {
namespace {

/// More than any machine has, and small enough that sums of a few such counts do not overflow.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 59;

std::int64_t capped_product(std::int64_t bytes, std::int64_t times) {
  return bytes > kMostBytes / times ? kMostBytes : bytes * times;
}

/// The least bytes of structure, labels and masks of all ranks together, for `nodes` rows with
/// `entries` entries.
std::int64_t structure_bytes(const Dataset& dataset, std::int64_t nodes, std::int64_t entries,
                             const ModelOptions& model) {
  const int adjacencies = dataset.graph.directed ? 2 : 1;
  const std::int64_t labels = dataset.labels.task == Task::multilabel ? dataset.labels.classes : 8;
  const std::int64_t scales = 4 * propagation_of(model).scales();
  const int entry = dataset.graph.edge_weights.empty() ? 4 : 4 + 4;
  return adjacencies * (entry * entries + 2 * 8 * nodes) + (8 + 8 + 2 + labels + scales) * nodes;
}

/// A lower bound of the bytes of the first aggregation of sparse features, of `entry_bytes` an
/// entry or dense: each row has the columns of all rows that it sums. Counting reads at most
/// kMostReads entries; each row after those has at least as many as the longest that it sums.
std::int64_t aggregation_bytes(const Dataset& dataset, bool with_self, std::int64_t entry_bytes) {
  constexpr std::int64_t kMostReads = 100'000'000;
  const Features& f = dataset.features;
  std::vector<NodeId> last_row(at(f.cols), -1);
  std::int64_t reads = 0, bytes = 0;
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) {
    std::int64_t entries = 0;
    const auto add = [&](NodeId u) {
      const std::int64_t begin = f.offsets[at(u)], end = f.offsets[at(u) + 1];
      reads += end - begin;
      if (reads > kMostReads) entries = std::max(entries, end - begin);
      for (std::int64_t i = begin; i < end && reads <= kMostReads; ++i) {
        NodeId& last = last_row[at(f.columns[at(i)])];
        if (last != v) ++entries;
        last = v;
      }
    };
    if (with_self) add(v);
    for (const NodeId u : neighbours_of(dataset.graph, v)) add(u);
    // A rank whose rows are filled by more than a fifth makes them dense.
    bytes += std::min(entry_bytes * entries, 4 * padded_stride(f.cols));
  }
  return bytes;
}

/// The input features of a model as buffers that are counted but not allocated.
class CountedInput {
 public:
  /// `halo_rows`: of all ranks together.
  CountedInput(const Dataset& dataset, const ModelOptions& options, std::int64_t nodes,
               std::int64_t halo_rows, MemoryUse use, MemoryAccount* account) {
    const Features& f = dataset.features;
    const bool reads_x = reads_features(options, f.cols, f.sparse);
    if (f.sparse) {
      // The entries of a part of the nodes are unknown. They count as none.
      input_.x.is_sparse = true;
      input_.x.sparse = {0, f.cols, nullptr, nullptr, nullptr, 0};
      if (nodes != f.rows) return;
      // Columns and values by row; in training also rows and positions by column.
      const std::int64_t entry_bytes = use == MemoryUse::features ? 4 + 4 + 4 + 8 : 4 + 4;
      std::int64_t bytes = 0;
      if (precomputes(options)) {
        bytes += aggregation_bytes(dataset, propagation_of(options).self != 0, entry_bytes);
      }
      if (reads_x || fetches_features(options)) {
        const std::int64_t entries = f.offsets[f.offsets.size() - 1];
        input_.x.sparse = {f.rows, f.cols, nullptr, nullptr, nullptr, entries};
        bytes += entry_bytes * entries;
        if (fetches_features(options)) {
          input_.gathered = input_.x;
          if (reads_x && halo_rows > 0) bytes += entry_bytes * entries;
        }
      }
      sparse_ = Buffer(static_cast<std::size_t>(bytes), use, account);
      return;
    }
    const auto view = [&](std::int64_t rows) {
      return FeatureView::of(ConstMatrixView{nullptr, rows, f.cols, padded_stride(f.cols)});
    };
    input_.x = view(nodes);
    if (fetches_features(options)) {
      gathered_ = Matrix(nodes + halo_rows, f.cols, use, account);
      input_.gathered = view(nodes + halo_rows);
      return;
    }
    if (reads_x) x_ = Matrix(nodes, f.cols, use, account);
    if (!precomputes(options)) return;
    gathered_ = Matrix(nodes, f.cols, use, account);
    input_.gathered = input_.x;
  }

  const ModelInput& input() const { return input_; }

 private:
  ModelInput input_;
  Buffer sparse_;
  Matrix x_, gathered_;
};

/// Bytes of send and receive buffers, which exchanges that keep nothing share at S = 0; with blocks
/// of rows, two are open at a time. `rows`: of a forward exchange. A directed graph's backward
/// exchanges have another number, which counts as none.
std::int64_t halo_bytes(const std::vector<Site>& sites, const ExchangeOptions& exchange, int epochs,
                        std::int64_t rows, std::int64_t blocks, bool directed) {
  const ExchangePolicy policy(exchange, epochs, sites);
  std::int64_t sum = 0, largest = 0;  // `largest`: of the sites that share buffers
  std::int64_t packed = 0;            // of the sites that send kept columns, which share it
  for (const Site& site : sites) {
    if (directed && site.direction == Direction::backward) continue;
    const auto bytes = 2 * rows * static_cast<std::int64_t>(policy.most_row_bytes(site));
    // How many of the rows with covers are rows or sums is not known here.
    if (policy.thins(site) && site.sums == nullptr) {
      const ColumnMasks masks{nullptr, site.cols, policy.of(site, {}).format};
      // Masks and offsets of rows sent, and of rows received in each epoch held, and node numbers.
      // Rows that keep all columns share a few masks.
      const std::int64_t mask_words = policy.keeps_columns(site) ? masks.words() : 0;
      const std::int64_t words = (1 + policy.slots(site)) * (mask_words + 1) + 2;
      sum = std::min(kMostBytes, sum + capped_product(rows, 8 * words));
      packed = std::max(packed, bytes / 2);
    }
    const std::int64_t kept = policy.kept_slots(site);
    if (kept == 0 && policy.slots(site) == 1) {
      largest = std::max(largest, bytes);
    } else {
      sum = std::min(kMostBytes,
                     sum + capped_product(bytes, std::max<std::int64_t>(kept, policy.slots(site))));
    }
  }
  if (blocks > 1) {
    largest = capped_product(largest, 2);
    packed = capped_product(packed, 3);  // Rows sent, and received by either.
  }
  return std::min(kMostBytes, sum + largest + packed);
}

/// The rows of all ranks' passes together. A directed graph's backward exchanges count as none.
PassRows pass_rows(const Dataset& dataset, const TrainOptions& options, std::int64_t training,
                   std::int64_t halo) {
  const int blocks = row_blocks(options, training, options.partition.parts);
  return {training, dataset.graph.nodes, blocks, halo, halo, dataset.graph.directed ? 0 : halo};
}

/// Whether gradients stay on devices, which sum them (WeightUpdate).
bool sums_on_devices(const TrainOptions& options) {
  const TransportOptions& transport = options.transport;
  return transport.device == DeviceKind::cuda && options.exchange.gradient_bits == Bits::fp32 &&
         (transport.kind == TransportKind::nccl || !ranks_are_processes(transport));
}

/// The scratch space of all ranks, more than one, that sum gradients.
std::int64_t sum_scratch(const Parameters& parameters, const TrainOptions& options) {
  const std::int64_t count = parameters.flat_size();
  const int parts = options.partition.parts, bits = bit_count(options.exchange.gradient_bits);
  if (bits < 32) return capped_product(IntegerSum::scratch_bytes(count, bits, parts), parts);
  return capped_product((options.reproducible ? 8 : 4) * count, parts - 1);
}

}  // namespace

CountedModel count_model(const Dataset& dataset, const TrainOptions& options,
                         std::int64_t training_nodes) {
  const std::int64_t nodes = dataset.graph.nodes;
  const std::int64_t rows = options.inductive ? training_nodes : nodes;
  const ModelOptions composed = composed_model(options);
  MemoryAccount account(nullptr);
  const auto kernels = make_cpu_kernels(1, options.reproducible, &account);
  const CountedInput input(dataset, composed, rows, 0, MemoryUse::features, &account);
  const Network model(composed, input.input(), dataset.labels.classes, options.seed,
                      {.training = rows,
                       .most = nodes,
                       .partial_sums = options.exchange.rows == ExchangedRows::cover},
                      *kernels, &account);
  return {model.sites(), model.parameters().flat_size(), model.rank_sums()};
}

MemoryNeeds least_memory(const Dataset& dataset, const TrainOptions& options,
                         std::int64_t training_nodes, std::optional<std::int64_t> halo_rows) {
  const std::int64_t nodes = dataset.graph.nodes;
  const std::int64_t rows = options.inductive ? training_nodes : nodes;
  const std::int64_t halo = halo_rows.value_or(0);
  const ModelOptions composed = composed_model(options);
  MemoryAccount account(nullptr);
  const auto kernels = make_cpu_kernels(1, options.reproducible, &account);
  const CountedInput input(dataset, composed, rows, halo, MemoryUse::features, &account);
  std::optional<CountedInput> evaluated;
  if (options.inductive) {
    evaluated.emplace(dataset, composed, nodes, halo, MemoryUse::evaluation, &account);
  }
  const PassRows passes = pass_rows(dataset, options, rows, halo);
  const Network model(composed, input.input(), dataset.labels.classes, options.seed, passes,
                      *kernels, &account);
  const Optimizer optimizer =
      make_optimizer(options, model.parameters(), 0, options.partition.parts, &account);

  MemoryNeeds needs;
  const bool guarded = guards(options, dataset.labels.task);
  needs.remedies = remedies_of(options, false, passes.blocks > 1, guarded);
  for (std::size_t i = 0; i < needs.bytes.size(); ++i) {
    needs.bytes[i] = account.live(static_cast<MemoryUse>(i));
  }
  const std::int64_t entries = dataset.graph.entries();
  const int parts = options.partition.parts;
  add_first_epochs(model.parameters(), options, needs);
  if (parts > 1 && sums_on_devices(options)) {
    needs[MemoryUse::workspace] += sum_scratch(model.parameters(), options);
  }
  needs[MemoryUse::weights] = capped_product(needs[MemoryUse::weights], parts);
  needs[MemoryUse::graph] +=
      structure_bytes(dataset, rows, options.inductive ? 0 : entries, composed);
  if (options.inductive) {
    needs[MemoryUse::evaluation] += structure_bytes(dataset, nodes, entries, composed);
  }
  needs[MemoryUse::graph] += 4 * halo;
  const auto add_halos = [&](const ExchangeOptions& exchange) {
    needs[MemoryUse::halo] += halo_bytes(model.sites(), exchange, options.epochs, halo,
                                         passes.blocks, dataset.graph.directed);
  };
  add_halos(options.exchange);
  add_later_exchanges(model.sites(), model.parameters(), options, options.exchange, guarded,
                      {parts, halo, passes.blocks, dataset.graph.directed}, needs);
  if (options.verify_every > 0 && parts > 1) {
    add_halos(exact_exchange(options.exchange));
    const std::vector<ExchangeOptions> later = trend_exchanges(options.exchange);
    if (options.exchange.staleness > 0) {
      add_halos(synchronous_exchange(later.empty() ? options.exchange : later.back()));
    }
    const ExchangePolicy policy(options.exchange, options.epochs, model.sites());
    needs[MemoryUse::evaluation] +=
        Verifier::outcome_bytes(model.parameters(), rows, dataset.labels.classes, parts) +
        Verifier::sum_bytes(composed, policy, model.sites(), rows);
  }
  return needs;
}

void add_later_exchanges(const std::vector<Site>& sites, const Parameters& parameters,
                         const TrainOptions& options, const ExchangeOptions& exchange, bool guarded,
                         const Halos& halos, MemoryNeeds& needs) {
  const auto bytes = [&](const ExchangeOptions& of) {
    return halo_bytes(sites, of, options.epochs, halos.rows, halos.blocks, halos.directed);
  };
  std::int64_t most = bytes(exchange);
  for (const ExchangeOptions& later :
       guarded ? raised_exchanges(exchange) : trend_exchanges(exchange)) {
    most = std::max(most, bytes(later));
  }
  needs[MemoryUse::halo] += most - bytes(exchange);
  if (!guarded) return;
  // Ranks share the moments unless gradients are summed as integers.
  const int shares = exchange.gradient_bits == Bits::fp32 ? options.partition.parts : 1;
  needs[MemoryUse::weights] += capped_product(
      4 * parameters.weights_and_statistics() + 8 * parameters.flat_size() / shares, halos.ranks);
}

void add_first_epochs(const Parameters& parameters, const TrainOptions& options,
                      MemoryNeeds& needs) {
  const int parts = options.partition.parts;
  // A device's scratch is allocated before, and its host keeps the best weights.
  if (options.transport.device != DeviceKind::cpu) return;
  if (parts > 1) needs[MemoryUse::workspace] += sum_scratch(parameters, options);
  if (parts > 1 && options.verify_every > 0) {  // It sums in fp64.
    needs[MemoryUse::workspace] += capped_product(8 * parameters.flat_size(), parts - 1);
  }
  if (options.eval_every > 0) {
    needs[MemoryUse::evaluation] += capped_product(4 * parameters.weights_and_statistics(), parts);
  }
}

Remedies remedies_of(const TrainOptions& options, bool cut, bool in_blocks, bool guarded) {
  const ExchangeOptions& exchange = options.exchange;
  const int most_bits =
      std::max(bit_count(exchange.bits_forward), bit_count(exchange.bits_backward));
  const bool chooses_blocks = options.transport.row_blocks == 0;
  const bool resumed = !options.checkpoint.resume.empty();
  const bool lower = most_bits > 1 && exchange.bits_policy == BitsPolicy::uniform;
  return {.bits = !resumed && (lower || !exchange.auto_bits.empty()),
          .staleness = !resumed && exchange.staleness > 0,
          .partitioner = !resumed && !cut && options.partition.partitioner != Partitioner::metis,
          .policy = !resumed && exchange.bits_policy != BitsPolicy::uniform,
          .blocks = in_blocks && !chooses_blocks,
          .hidden = !resumed && options.model.hidden > 1,
          .layers = !resumed && options.model.layers > 1,
          .parts = !resumed && !cut && options.partition.parts > 1,
          .verification = options.verify_every > 0,
          .guard = guarded,
          .one_block = in_blocks && chooses_blocks,
          .resumed = resumed};
}

MemoryNeeds least_host_memory(const Dataset& dataset, const TrainOptions& options,
                              std::int64_t training_nodes, std::optional<std::int64_t> halo_rows) {
  const std::int64_t nodes = dataset.graph.nodes;
  const std::int64_t entries = dataset.graph.entries();
  const std::int64_t rows = options.inductive ? training_nodes : nodes;
  const std::int64_t halo = halo_rows.value_or(0);
  const Features& features = dataset.features;
  const ModelOptions composed = composed_model(options);
  MemoryAccount account(nullptr);
  const auto kernels = make_cpu_kernels(1, false, &account);
  const CountedInput input(dataset, composed, rows, halo, MemoryUse::features, &account);
  const Network model(composed, input.input(), dataset.labels.classes, options.seed,
                      pass_rows(dataset, options, rows, halo), *kernels, &account);

  MemoryNeeds needs;
  needs[MemoryUse::graph] =
      structure_bytes(dataset, rows, options.inductive ? 0 : entries, composed) + 4 * halo;
  if (options.inductive) {
    needs[MemoryUse::evaluation] = structure_bytes(dataset, nodes, entries, composed);
  }
  // The whole graph's features are loaded after those of the training nodes are on the device. The
  // number of entries of the training nodes' sparse features is unknown.
  const std::int64_t loaded = features.sparse
                                  ? (4 + 4) * (features.offsets[features.offsets.size() - 1])
                                  : 4 * nodes * padded_stride(features.cols);
  // Page-locked copies of gradients that are summed as integers; others stay on the devices.
  const bool sums_integers =
      options.partition.parts > 1 && options.exchange.gradient_bits != Bits::fp32;
  const std::int64_t gradients =
      sums_integers ? capped_product(4 * model.parameters().flat_size(), options.partition.parts) +
                          sum_scratch(model.parameters(), options)
                    : 0;
  // Each rank draws its initial weights on the host, and keeps those of the best epoch there.
  const std::int64_t drawn =
      capped_product(4 * model.parameters().weights_and_statistics(), options.partition.parts);
  const std::int64_t kept = options.eval_every > 0 ? drawn : 0;
  const std::int64_t outputs = 4 * nodes * padded_stride(dataset.labels.classes);
  const std::int64_t scoring = kept + gradients + outputs;
  // Options of the model, which a resumed run keeps, change the least only where its weights are
  // what takes most.
  const bool resumed = !options.checkpoint.resume.empty();
  const bool of_model = !resumed && std::max(drawn, scoring) > loaded;
  needs.remedies = {.bits = false,
                    .staleness = false,
                    .partitioner = false,
                    .hidden = of_model,
                    .layers = of_model,
                    .parts = of_model,
                    .resumed = resumed};
  if (drawn > std::max(loaded, scoring)) {
    needs[MemoryUse::weights] = drawn;
  } else if (loaded > scoring) {
    needs[MemoryUse::features] = loaded;
  } else {
    needs[MemoryUse::weights] = kept;
    needs[MemoryUse::gradients] = gradients;
    needs[MemoryUse::evaluation] += outputs;
  }
  return needs;
}

}  // namespace heliograph
