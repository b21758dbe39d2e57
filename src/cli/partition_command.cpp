#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <variant>

#include "cli/command.hpp"
#include "cli/data_options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "cli/train_report.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "heliograph/options.hpp"
#include "train/options/given.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"
#include "train/plan/exchange_cost.hpp"
#include "train/plan/run_plan.hpp"
#include "train/plan/shard_writer.hpp"
#include "train/run/output_path.hpp"
#include "train/run/summary.hpp"

namespace heliograph::cli {
namespace {

struct PartitionRequest {
  DataOptions input;
  TrainOptions train;  ///< Only the options of partition_fields() are used.
  std::string out;     ///< A shard directory.
  std::string owners;  ///< A file of owners.
  bool overwrite = false;
};

std::vector<OptionField<PartitionRequest>> partition_fields() {
  FieldTable<PartitionRequest> fields;
  fields.add_part(input_fields(), HELIOGRAPH_MEMBER(input));
  fields.add_part(train_option_fields(), HELIOGRAPH_MEMBER(train),
                  {"parts", "partitioner", "objective", "partition-seed", "balance-train",
                   "node-order", "split", "split-seed", "stratified", "normalize", "inductive"});
  // What decides the bytes and the memory that are printed.
  fields.add_group(train_option_fields(), HELIOGRAPH_MEMBER(train), "Model");
  fields.add_part(train_option_fields(), HELIOGRAPH_MEMBER(train),
                  {"reproducible", "exchange", "kept-columns", "staleness", "stale-sites",
                   "gradient-bits", "link-gbps"});
  fields.group("Results");
  fields.add("out", "DIR",
             "Write shards: a data set in parts, of which each rank of a later training reads only "
             "its own. --split, --normalize, --inductive and --node-order are fixed in them.",
             HELIOGRAPH_MEMBER(out));
  fields.add(
      "owners", "FILE",
      "Write the rank of each node, which train reads as --partitioner file:FILE: *.npy as an "
      "array, partition_meta.json with _N.txt beside it as DGL's dispatch_data.py reads them, any "
      "other name as METIS does, one rank a line.",
      HELIOGRAPH_MEMBER(owners));
  fields.add("init-from", "PATH",
             "With --out and --normalize standard: normalise by the statistics of these weights (a "
             "run directory, a checkpoint or a .safetensors file), so that eval and train "
             "--init-from can use them on the shards.",
             HELIOGRAPH_MEMBER(train.init_from));
  fields.add("overwrite", "Replace --out, and --owners outside a data set's folder, if they exist.",
             HELIOGRAPH_MEMBER(overwrite));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(input));
  return fields.take();
}

std::string quality_table(const PartitionQuality& quality) {
  std::vector<std::vector<std::string>> rows{
      {"part", "inner nodes", "halo nodes", "inner entries", "halo entries"}};
  for (std::size_t part = 0; part < quality.inner_nodes.size(); ++part) {
    rows.push_back({std::to_string(part), with_commas(quality.inner_nodes[part]),
                    with_commas(quality.halo_nodes[part]), with_commas(quality.inner_edges[part]),
                    with_commas(quality.halo_edges[part])});
  }
  return columns(rows);
}

std::string totals_table(const PartitionQuality& quality, const Graph& graph,
                         const std::string& hash, bool inductive) {
  const std::int64_t edges = graph.directed ? graph.entries() : graph.entries() / 2;
  const double share =
      edges == 0 ? 0.0 : 100.0 * static_cast<double>(quality.edge_cut) / static_cast<double>(edges);
  return two_columns({
      {"edge cut", fmt::format("{} of {} {} ({:.1f} %)", with_commas(quality.edge_cut),
                               with_commas(edges), plural(edges, "edge"), share)},
      {"communication volume",
       fmt::format("{} {} an exchange{}", with_commas(quality.communication_volume),
                   plural(quality.communication_volume, "row"),
                   inductive ? " of the whole graph, as in evaluation" : "")},
      {"balance", fmt::format("largest over mean part: {:.3f} in nodes, {:.3f} in entries",
                              quality.node_balance, quality.edge_balance)},
      {"partition hash", hash},
  });
}

std::string gradient_format(const TrainOptions& options) {
  const Bits bits = options.exchange.gradient_bits;
  if (bits != Bits::fp32) {
    return fmt::format("as integers of {} and their sums", counted(bit_count(bits), "bit"));
  }
  return fmt::format("in {}, and the weights that they update",
                     options.reproducible ? "fp64" : "fp32");
}

/// What an epoch sends at each number of bits, how long its busiest link takes for that, and what a
/// rank holds; for one part only the latter.
std::string cost_table(const Dataset& dataset, const Partition& partition,
                       const PartitionRequest& request, const Split* split) {
  constexpr int most_parts = 2048;  // The count of each link's rows takes parts^2 numbers.
  if (partition.parts > most_parts) {
    return fmt::format("  bytes of an epoch are printed for at most {} parts\n", most_parts);
  }
  const ModelOptions& model = request.train.model;
  const double gbps = request.train.transport.link_gbps;
  std::vector<std::vector<std::string>> rows{
      {"bits", "node rows", "gradients", "bytes an epoch", "busiest link"}};
  if (gbps > 0) rows[0].push_back("waiting");
  rows[0].emplace_back("memory a rank");
  const auto exchanges = at_all_bits(request.train);
  const auto costs = exchange_costs(dataset, partition, request.train, split, exchanges);
  if (partition.parts == 1) {
    return two_columns({{"memory", human_bytes(costs[0].memory.total()) +
                                       ", the least that training holds; nothing is sent"}});
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const ExchangeCost& cost = costs[i];
    std::vector<std::string> row{std::to_string(bit_count(exchanges[i].bits_forward)),
                                 human_bytes(cost.row_bytes), human_bytes(cost.gradient_bytes),
                                 human_bytes(cost.row_bytes + cost.gradient_bytes),
                                 human_bytes(cost.link_bytes)};
    if (gbps > 0) row.push_back(human_seconds(link_seconds(cost.link_bytes, gbps)));
    row.push_back(human_bytes(cost.memory.total() / partition.parts));
    rows.push_back(std::move(row));
  }
  std::string text = fmt::format("\nAn epoch of {}, {} of {}, {}:\n", choice_name(model.kind),
                                 counted(model.layers, "layer"), model.hidden,
                                 staleness_text(request.train.exchange)) +
                     columns(rows) +
                     fmt::format("  gradients: of weights, {}, at any bits of rows\n",
                                 gradient_format(request.train));
  // Names the bits at which a choice is taken: "covers at 2 and 1 bits: ". Empty if at none.
  const auto where = [&](const char* name, bool ExchangeChoice::*taken) -> std::string {
    std::vector<std::string> bits;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (costs[i].choice.*taken) {
        bits.push_back(std::to_string(bit_count(exchanges[i].bits_forward)));
      }
    }
    if (bits.empty()) return "";
    const bool always = bits.size() == costs.size();
    const char* const unit = bits[0] == "1" ? "bit" : "bits";  // 1 comes last.
    return name + (always ? "" : fmt::format(" at {} {}", listed(bits, "and"), unit)) + ": ";
  };
  if (costs[0].covers) {
    const std::string covers = where("covers", &ExchangeChoice::covers);
    text += "  " + (covers.empty() ? "boundary rows, since with covers " : covers) +
            describe_covers(*costs[0].covers) + "\n";
  }
  const std::string kept = where("kept columns", &ExchangeChoice::kept_columns);
  if (!kept.empty()) text += "  " + kept + "columns that dropout drops do not travel\n";
  if (gbps > 0) {
    text += fmt::format(
        "  waiting: for the busiest link's bytes at {} Gbit/s, if nothing hides it\n", gbps);
  }
  return text + "  memory: the least that training holds, mean over ranks\n";
}

int run_partition(const Arguments<PartitionRequest>& arguments) {
  PartitionRequest request;
  arguments.apply(request);
  validate(request.train, arguments.given());
  require_text(request.input.data, "data", "the path of a data set");
  refuse_shards(request.input);
  refuse_flags_of_edge_lists(request.input, arguments.given());
  if (request.overwrite && request.out.empty() && request.owners.empty()) {
    throw Error(ErrorCode::usage, "--overwrite needs --out or --owners");
  }
  if (!request.train.init_from.empty() &&
      (request.out.empty() || request.train.normalize != Normalization::standard)) {
    throw Error(ErrorCode::usage, "--init-from needs --out and --normalize standard");
  }
  require_writable_partition("owners", request.owners, request.overwrite);
  if (!request.out.empty()) check_shard_target(request.out, request.overwrite);
  Progress progress(0, request.input.quiet, request.input.log_level);
  const PartitionOptions cut = cut_of(request.train);
  const bool splits = cut.balance_train || request.train.inductive || !request.out.empty();
  request.input.requires_splits = splits && std::holds_alternative<GivenSplit>(request.train.split);
  const Dataset dataset = load(request.input, progress);
  Split split;
  if (splits) split = make_split(dataset, request.train.split);
  progress.phase("cutting into " + counted(cut.parts, "part"));
  const Partition partition = make_partition(dataset.graph, cut, progress.callback(), &split);
  if (!request.owners.empty()) write_partition(partition, request.owners);
  if (!request.out.empty()) {
    progress.phase("writing shards");
    const auto fields = input_fields();
    DataOptions& input = request.input;
    // Their runs read other data likewise only in the same format.
    if (input.format == InputFormat::automatic) input.format = detect_format(input.data);
    auto reading = fields_to_json(std::span<const OptionField<DataOptions>>(fields), input);
    reading.erase("data");
    write_shards(dataset, partition, request.train, request.out, request.overwrite, reading);
  }
  progress.finish();
  if (request.input.quiet) return 0;
  const PartitionQuality quality = measure_partition(dataset.graph, partition);
  std::string text =
      describe(dataset) + "\n" + quality_table(quality) +
      totals_table(quality, dataset.graph, partition_hash(partition), request.train.inductive);
  text += cost_table(dataset, partition, request, request.train.inductive ? &split : nullptr);
  if (!request.owners.empty()) text += two_columns({{"owners", request.owners}});
  if (!request.out.empty()) {
    const auto count = [&](Role role) { return std::ranges::count(split.role, role); };
    text += two_columns({{"split", describe_split(request.train.split, count(Role::train),
                                                  count(Role::validation), count(Role::test))},
                         {"shards", request.out}});
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

Command partition_command() {
  return with_fields<PartitionRequest>(
      {"partition", "Cut a graph into K parts, print what the cut costs, and write it.",
       " --data PATH --parts K [--out DIR] [--owners FILE] [options]",
       "Examples:\n"
       "  heliograph partition --data graphs/cora --parts 4 --split random:60/20/20 --out cora-4\n"
       "  heliograph partition --data graphs/cora --parts 4 --owners cora.part.4\n"
       "  heliograph partition --data graphs/cora --parts 4 --partitioner file:cora.part.4"},
      partition_fields(), run_partition);
}

}  // namespace heliograph::cli
