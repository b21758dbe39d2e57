#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>

#include "core/buffer.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Bytes by use, over all ranks of this process.
struct MemoryNeeds {
  std::array<std::int64_t, kMemoryUses> bytes{};

  std::int64_t& operator[](MemoryUse use) { return bytes[static_cast<std::size_t>(use)]; }
  std::int64_t operator[](MemoryUse use) const { return bytes[static_cast<std::size_t>(use)]; }
  std::int64_t total() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{}); }
};

/// What training holds at least, data set excluded, by going through the making of a model whose
/// buffers are only counted. Allocates next to nothing.
/// `halo_rows`: rows that ranks send in one forward exchange, all together; unknown before
/// partitioning, and halos are then left out, as are a directed graph's backward ones.
MemoryNeeds least_memory(const Dataset& dataset, const TrainOptions& options,
                         std::int64_t training_nodes, std::optional<std::int64_t> halo_rows);

/// What the host holds at least at one time, data set excluded, of a run whose ranks are threads
/// and compute on devices: structure all along; the input features until they are placed, or, where
/// that is more, gradients that are summed over ranks and, between two epochs, the outputs to be
/// scored.
MemoryNeeds least_host_memory(const Dataset& dataset, const TrainOptions& options,
                              std::int64_t training_nodes, std::optional<std::int64_t> halo_rows);

/// Refuses a run that cannot fit: throws Error(resource) with what it needs, by use, what there
/// is, and what to change. `limit`: of TrainOptions, bytes, 0 for none; then `available` counts,
/// which is nothing where the system does not tell.
/// `device`: whose memory is meant.
void require_memory(const MemoryNeeds& needs, std::int64_t limit,
                    std::optional<std::int64_t> available, DeviceKind device = DeviceKind::cpu);

/// The same of what the host of devices must hold, without a limit.
void require_host_memory(const MemoryNeeds& needs, std::optional<std::int64_t> available);

}  // namespace heliograph
