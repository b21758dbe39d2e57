#include "train/plan/memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

std::string gib(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

/// Names what lowers the largest use, and others that alone take more than the `excess` bytes that
/// are missing.
std::string advice(const MemoryNeeds& needs, std::int64_t excess, MemoryUse largest) {
  const Remedies& can = needs.remedies;
  const auto may_give = [&](MemoryUse use) { return use == largest || needs[use] > excess; };
  const bool of_halo = may_give(MemoryUse::halo), of_weights = may_give(MemoryUse::weights);
  const bool of_model = of_weights || may_give(MemoryUse::activations) ||
                        may_give(MemoryUse::gradients) || may_give(MemoryUse::workspace);
  // No option lowers the data set's own part, but any may lower the rest enough.
  const bool of_data = largest == MemoryUse::graph || largest == MemoryUse::features;
  std::vector<std::string> lower;
  for (const auto& [of, can_be, name] :
       {std::tuple(of_halo, can.bits, "--bits"),
        {of_halo, can.staleness, "--staleness"},
        {true, can.blocks, "--row-blocks"},  // It changes at most rounding.
        {of_model, can.hidden, "--hidden"},
        {of_model, can.layers, "--layers"},
        {of_weights, can.parts, "--parts"}}) {
    if ((of || of_data) && can_be) lower.emplace_back(name);
  }
  std::string text = lower.empty() ? "" : "lower " + listed(lower);
  const auto add = [&](const char* remedy) {
    text += (text.empty() ? "" : ", or ") + std::string(remedy);
  };
  if (can.one_block) add("take --row-blocks 1");
  if ((of_halo || of_data) && can.policy) add("take --bits-policy uniform");
  if ((of_halo || of_data) && can.partitioner) add("take --partitioner metis");
  if (can.verification) add(can.resumed ? "take --verify 0" : "leave out --verify");
  if (can.guard) {
    add(can.resumed ? "leave out --guard if the checkpoint's run had none" : "leave out --guard");
  }
  if (text.empty()) {
    return can.resumed ? "a resumed run cannot use less, so give it more memory"
                       : "the data set asks for a machine with more memory";
  }
  if (of_data) add("use a machine with more memory");
  return text;
}

/// Throws Error(resource) if `what` needs more than `bytes`, which is nothing if unknown. `there`:
/// the format of the part of the message that names `bytes`.
void require_within(std::optional<std::int64_t> bytes, const MemoryNeeds& needs, const char* what,
                    const char* there) {
  const std::int64_t total = needs.total();
  if (!bytes || total <= *bytes) return;
  std::vector<std::pair<std::int64_t, MemoryUse>> uses;
  for (std::size_t i = 0; i < needs.bytes.size(); ++i) {
    // Uses below 5 % are left out of the message.
    if (needs.bytes[i] > total / 20) {
      uses.emplace_back(needs.bytes[i], static_cast<MemoryUse>(i));
    }
  }
  std::sort(uses.rbegin(), uses.rend());
  std::string parts;
  for (const auto& [size, use] : uses) {
    parts += fmt::format("{}{} for {}", parts.empty() ? "" : ", ", gib(size), memory_use_name(use));
  }
  throw_error(ErrorCode::resource, "{} needs at least {} ({}) and {}: {}", what, gib(total), parts,
              fmt::format(fmt::runtime(spell_options(there)), gib(*bytes)),
              spell_options(advice(needs, total - *bytes, uses.front().second)));
}

}  // namespace

void require_memory(const MemoryNeeds& needs, std::int64_t limit,
                    std::optional<std::int64_t> available, DeviceKind device) {
  if (limit > 0) {
    require_within(limit, needs, "training", "--memory-limit-mib allows {}");
  } else {
    require_within(available, needs, "training",
                   device == DeviceKind::cpu ? "this machine has {} available"
                                             : "its CUDA devices have {} available");
  }
}

void require_host_memory(const MemoryNeeds& needs, std::optional<std::int64_t> available) {
  require_within(available, needs, "the host of the CUDA devices", "has {} available");
}

}  // namespace heliograph
