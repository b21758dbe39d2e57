#include "train/agreement.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/options/fields.hpp"
#include "train/options/json.hpp"

namespace heliograph {
namespace {

/// Options in which ranks may differ.
constexpr std::string_view kOwn[] = {"transport", "threads-per-rank", "pin", "init-from",
                                     "memory-limit-mib"};

/// What ranks must have in common, as an error names it and as text.
using Shared = std::vector<std::pair<std::string, std::string>>;

Shared shared_by_ranks(const RunPlan& plan, const Model* weights,
                       const CheckpointManifest* resumed) {
  TrainOptions options = plan.options();
  if (options.partition.partitioner == Partitioner::file) options.partition.file = "PATH";
  const RunFacts& facts = plan.facts();
  Shared shared{
      {"the data set",
       fmt::format("{} {} {} {}", facts.name, facts.nodes, facts.classes, facts.feature_cols)},
      {spell_options("the direction of edges (--keep-direction)"),
       facts.directed ? "kept" : "both"},
      {spell_options("the weights of edges (--ignore-weights)"),
       facts.weights ? fmt::format("{} {} {} {}", facts.weights->least, facts.weights->most,
                                   facts.weights->source, facts.weights->target)
                     : "none"},
      {spell_options("whether --out is given"), options.checkpoint.folder.empty() ? "no" : "yes"}};
  for (const auto& field : train_option_fields()) {
    if (!field.get || std::ranges::count(kOwn, field.name) > 0) continue;
    shared.emplace_back(spell_options("--" + field.name), json_text(field.get(options)));
  }
  shared.emplace_back("the split", fmt::format("{} {}", facts.training_nodes,
                                               fmt::join(facts.training_of_class, " ")));
  shared.emplace_back("the partition", fmt::format("{} {}", facts.ranks, facts.partition_hash));
  shared.emplace_back("the weights", std::to_string(weights == nullptr ? 0 : hash_of(*weights)));
  shared.emplace_back("the checkpoint", std::to_string(resumed == nullptr ? 0 : resumed->epochs));
  return shared;
}

/// The hashes of `texts` on each rank, one rank after the other. Collective.
std::vector<std::int64_t> gather_hashes(const std::vector<std::string>& texts, Communicator& comm) {
  std::vector<std::int64_t> hashes(texts.size() * static_cast<std::size_t>(comm.size()), 0);
  std::size_t at = texts.size() * static_cast<std::size_t>(comm.rank());
  for (const std::string& text : texts) {
    hashes[at++] = static_cast<std::int64_t>(xxh64(std::as_bytes(std::span(text))) >> 1U);
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(hashes));
  return hashes;
}

}  // namespace

void require_agreement(const RunPlan& plan, const Model* weights, const CheckpointManifest* resumed,
                       Communicator& comm) {
  const Shared shared = shared_by_ranks(plan, weights, resumed);
  std::vector<std::string> texts;
  std::string all;
  for (const auto& [name, text] : shared) {
    texts.push_back(text);
    all += text + '\n';
  }
  const auto whole = gather_hashes({all}, comm);
  if (std::ranges::count(whole, whole[0]) == static_cast<std::ptrdiff_t>(whole.size())) return;
  const auto hashes = gather_hashes(texts, comm);
  std::size_t at = 0;
  while (hashes[at] == hashes[at % texts.size()]) ++at;
  throw_error(ErrorCode::mismatch,
              "rank {} differs from rank 0 in {}: start all ranks with the same options and data",
              at / texts.size(), shared[at % texts.size()].first);
}

}  // namespace heliograph
