#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/site.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"
#include "layers/parameters.hpp"

namespace heliograph {

/// What would lower the memory of a run.
struct Remedies {
  bool bits = true, staleness = true, partitioner = true;  ///< Of halos.
  bool policy = false;                                     ///< Of halos.
  bool blocks = false;                                     ///< Of halos and gradients.
  bool hidden = true, layers = true;
  bool parts = true;          ///< Of weights.
  bool verification = false;  ///< Of halos and evaluation.
  bool guard = false;         ///< Of halos and weights.
  bool one_block = false;     ///< Of halos and gradients, if the run chooses their blocks.
  bool resumed = false;       ///< The run has its checkpoint's options unless others are given.
};
/// None that a resumed run must not change. `cut`: the run reads shards, whose number and cut are
/// given. `in_blocks`: passes run in several blocks of rows. `guarded`: the run has a guard.
Remedies remedies_of(const TrainOptions& options, bool cut, bool in_blocks, bool guarded);

/// Bytes by use, summed over ranks.
struct MemoryNeeds {
  std::array<std::int64_t, kMemoryUses> bytes{};
  Remedies remedies;

  std::int64_t& operator[](MemoryUse use) { return bytes[static_cast<std::size_t>(use)]; }
  std::int64_t operator[](MemoryUse use) const { return bytes[static_cast<std::size_t>(use)]; }
  std::int64_t total() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{}); }
};

/// What a model exchanges.
struct CountedModel {
  std::vector<Site> sites;
  std::int64_t gradients = 0;  ///< Values of the flat gradients.
  std::int64_t rank_sums = 0;  ///< Composition::rank_sums.
};

/// Makes a model whose buffers are counted but not allocated. `training_nodes`: as below.
CountedModel count_model(const Dataset& dataset, const TrainOptions& options,
                         std::int64_t training_nodes);

/// The least memory that training holds, without the data set. Makes a model whose buffers are
/// counted but not allocated. `halo_rows`: the number of rows that all ranks together send in one
/// forward exchange; nothing before partitioning, when it is unknown. Unknown halos are left out,
/// and so are those of a directed graph's backward exchanges.
MemoryNeeds least_memory(const Dataset& dataset, const TrainOptions& options,
                         std::int64_t training_nodes, std::optional<std::int64_t> halo_rows);

/// Adds what ranks allocate in the first epochs where kernels read it, but for the scratch of
/// kernels: on a CPU the weights of the best epoch, and what sums of gradients need.
void add_first_epochs(const Parameters& parameters, const TrainOptions& options,
                      MemoryNeeds& needs);

/// The halos of so many ranks together.
struct Halos {
  int ranks = 1;
  std::int64_t rows = 0;    ///< That these ranks send in one forward exchange.
  std::int64_t blocks = 1;  ///< Of rows, in a pass.
  bool directed = false;    ///< The rows of backward exchanges are others, and count as none.
};
/// Adds what a run may come to hold beside the halos of `exchange`: those of an exchange that takes
/// its place, by BitsPolicy::trend or a guard, and the weights that a guard keeps.
void add_later_exchanges(const std::vector<Site>& sites, const Parameters& parameters,
                         const TrainOptions& options, const ExchangeOptions& exchange, bool guarded,
                         const Halos& halos, MemoryNeeds& needs);

/// The least memory that the host must hold at one time, without the data set, if ranks are threads
/// that compute on devices. It holds the structure throughout, and at different times the input
/// features, until they are on the device, the initial weights of all ranks, and the outputs to
/// score with the best weights and gradients that are summed as integers. The largest of these
/// counts.
MemoryNeeds least_host_memory(const Dataset& dataset, const TrainOptions& options,
                              std::int64_t training_nodes, std::optional<std::int64_t> halo_rows);

}  // namespace heliograph
