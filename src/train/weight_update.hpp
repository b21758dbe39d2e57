#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/integer_sum.hpp"
#include "core/buffer.hpp"
#include "core/kernels.hpp"
#include "core/phase_clock.hpp"
#include "layers/parameters.hpp"
#include "train/optimizer.hpp"

namespace heliograph {

/// The optimizer of a rank, which owns 1 / `ranks` of the weights, or all if --gradient-bits is
/// below 32.
Optimizer make_optimizer(const TrainOptions& options, const Parameters& parameters, int rank,
                         int ranks, MemoryAccount* account);

/// Sums weight gradients over ranks and updates the weights, while backward runs: each rank sums a
/// share of every announced range, updates these weights, and sends them to the others. So every
/// rank has the same weights, and its optimizer holds 1 / K of the state. Below 32 bits, gradients
/// are summed as integers after backward, and every rank updates all weights. With a device,
/// nothing begins before backward has ended. Gradients and weights stay in its memory, unless they
/// are summed as integers or the transport does not move device memory. Used by the rank's own
/// thread.
class WeightUpdate {
 public:
  /// `times`: time spent on messages and sums is added to its allreduce. `account` counts memory of
  /// the host, `device_account` that of the optimizer's state. References must outlive the object.
  WeightUpdate(const TrainOptions& options, const Parameters& parameters, Communicator& comm,
               Kernels& kernels, PhaseClock& times, MemoryAccount* account,
               MemoryAccount* device_account);

  /// Begins an update with the learning rate `lr`. Draws are those of `clock`.
  void begin(double lr, Clock clock);
  /// This rank's gradients [begin, end) of the flat parameters are final, as Network::backward
  /// announces. Their sum over ranks begins if it can overlap with backward.
  void complete(std::int64_t begin, std::int64_t end);
  /// Backward no longer reads the parameters that are complete, so they may change.
  void release();
  /// Ends the update, whose gradients must all be complete: weights are the next epoch's.
  /// Throws Error(peer_lost).
  void finish();

  /// The sum of squares of the gradients of which this rank gives account, each on one rank. NaN or
  /// Inf if one of them is.
  double squares() const { return squares_; }
  Optimizer& optimizer() { return optimizer_; }

 private:
  bool on_host() const { return kernels_.device().on_host(); }
  /// Whether a device's gradients are summed on the host.
  bool stages() const {
    return !on_host() && comm_.size() > 1 &&
           (integers_ || !comm_.moves_device_memory(Channel::weights));
  }
  /// Whether sums begin while backward runs. A device has not computed the gradients by then.
  bool overlaps() const { return on_host() && !integers_; }
  void begin_sum(Optimizer::Range range);
  void update(Optimizer::Range range);
  void upload_sums(Optimizer::Range range);
  void clip();
  void update_all();
  void add_squares(Optimizer::Range range);
  void read_squares();

  const Parameters& parameters_;
  Communicator& comm_;
  Kernels& kernels_;
  PhaseClock& times_;
  Optimizer optimizer_;
  MemoryAccount page_locked_;
  /// The host's copies of a device's gradients and weights, if it stages. Declared before the sums,
  /// since messages that use them are in flight until those are destroyed.
  Buffer gradients_, weights_;
  Buffer range_squares_;  ///< The sum of squares of one range, where kernels write it.
  std::vector<Optimizer::Range> complete_;  ///< The ranges of this update, in order.
  double squares_ = 0;
  Clock clock_;
  std::optional<IntegerSum> integers_;  ///< Below 32 bits only, on more than one rank.
  AllReduce sums_;
  AllReduce norm_;
};

}  // namespace heliograph
