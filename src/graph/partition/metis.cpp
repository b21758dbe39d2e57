#include "graph/partition/metis.hpp"

#include <fcntl.h>
#include <metis.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <limits>
#include <mutex>

#include "core/descriptor.hpp"
#include "core/noise.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

static_assert(sizeof(idx_t) == sizeof(std::int32_t), "this file needs METIS with 32-bit indices");

/// Blocks SIGTERM and restores the handlers of SIGTERM and SIGABRT at its end: METIS uses both
/// signals for errors of its own and leaves default handlers behind.
class SignalGuard {
 public:
  SignalGuard() {
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, &mask_);
    sigaction(SIGTERM, nullptr, &on_terminate_);
    sigaction(SIGABRT, nullptr, &on_abort_);
  }
  ~SignalGuard() {
    sigaction(SIGTERM, &on_terminate_, nullptr);
    sigaction(SIGABRT, &on_abort_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  sigset_t mask_{};
  struct sigaction on_terminate_ {};
  struct sigaction on_abort_ {};
};

/// Sends standard output to /dev/null while it lives. METIS prints a message if a bisection comes
/// out empty, which happens with few nodes a part. Such graphs take milliseconds, so other threads
/// hardly lose output.
class SilentStdout {
 public:
  explicit SilentStdout(bool wanted) {
    if (!wanted) return;
    std::fflush(stdout);
    const Descriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!nowhere.open()) return;
    stdout_ = Descriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (stdout_.open()) dup2(nowhere.get(), STDOUT_FILENO);
  }
  ~SilentStdout() {
    if (!stdout_.open()) return;
    std::fflush(stdout);
    dup2(stdout_.get(), STDOUT_FILENO);
  }
  SilentStdout(const SilentStdout&) = delete;
  SilentStdout& operator=(const SilentStdout&) = delete;

 private:
  Descriptor stdout_;
};

/// Node weights of two constraints: all nodes, and training nodes. Empty if there is no split to
/// balance, or if no node or every node is for training.
std::vector<idx_t> training_weights(const Graph& graph, const Split* split) {
  if (split == nullptr) return {};
  if (static_cast<std::int64_t>(split->role.size()) != graph.nodes) {
    throw_error(ErrorCode::mismatch, "the split to balance has {} nodes but the graph has {}",
                split->role.size(), graph.nodes);
  }
  const auto training = std::count(split->role.begin(), split->role.end(), Role::train);
  if (training == 0 || training == graph.nodes) return {};
  std::vector<idx_t> weights;
  weights.reserve(2 * split->role.size());
  for (const Role role : split->role) {
    weights.push_back(1);
    weights.push_back(role == Role::train ? 1 : 0);
  }
  return weights;
}

[[noreturn]] void throw_metis_error(int code) {
  if (code == METIS_ERROR_MEMORY) {
    throw Error(ErrorCode::resource, "METIS ran out of memory while partitioning the graph");
  }
  throw Error(ErrorCode::bad_input, code == METIS_ERROR_INPUT
                                        ? "METIS rejected the graph that it was given to partition"
                                        : "METIS failed while partitioning the graph");
}

}  // namespace

void check_metis_size(std::int64_t nodes, std::int64_t entries, bool directed) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() - 1;
  const std::int64_t most = directed ? limit / 2 : limit;
  if (nodes > limit) {
    throw_error(ErrorCode::resource,
                "the graph has {} nodes; METIS's 32-bit indices hold at most {}", nodes, limit);
  }
  if (entries > most) {
    throw_error(ErrorCode::resource,
                "the {} graph has {} neighbour entries; METIS's 32-bit indices hold at most {}{}: "
                "use the contiguous or random partitioner, or a partition file",
                directed ? "directed" : "undirected", entries, most,
                directed ? ", as every edge counts both ways" : "");
  }
}

std::vector<std::int32_t> metis_owners(const Graph& graph, const PartitionOptions& options,
                                       const Split* balanced) {
  check_metis_size(graph.nodes, graph.entries(), false);
  std::vector<idx_t> weights = training_weights(graph, balanced);
  std::vector<idx_t> offsets(graph.offsets.begin(), graph.offsets.end());
  std::vector<std::int32_t> owner(static_cast<std::size_t>(graph.nodes), -1);
  idx_t nodes = static_cast<idx_t>(graph.nodes);
  idx_t constraints = weights.empty() ? 1 : 2;
  idx_t parts = options.parts;
  idx_t objective = -1;

  std::array<idx_t, METIS_NOPTIONS> settings;
  METIS_SetDefaultOptions(settings.data());
  settings[METIS_OPTION_OBJTYPE] =
      options.objective == MetisObjective::volume ? METIS_OBJTYPE_VOL : METIS_OBJTYPE_CUT;
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(mix64(options.seed) >> 33);
  settings[METIS_OPTION_NUMBERING] = 0;

  static std::mutex one_at_a_time;
  int code = METIS_ERROR;
  {
    const std::lock_guard lock(one_at_a_time);
    const SignalGuard signals;
    const SilentStdout silence(graph.nodes / options.parts < 64);
    // With C numbering METIS only reads the neighbours, so they may lie in a read-only mapped file.
    code = METIS_PartGraphKway(&nodes, &constraints, offsets.data(),
                               const_cast<idx_t*>(graph.neighbours.data()),
                               weights.empty() ? nullptr : weights.data(), nullptr, nullptr, &parts,
                               nullptr, nullptr, settings.data(), &objective, owner.data());
  }
  if (code != METIS_OK) throw_metis_error(code);
  const bool in_range = std::all_of(owner.begin(), owner.end(),
                                    [&](std::int32_t o) { return o >= 0 && o < options.parts; });
  if (objective < 0 || !in_range) {
    throw_error(ErrorCode::bad_input, "METIS returned an owner out of range or an objective of {}",
                objective);
  }
  return owner;
}

}  // namespace heliograph
