#include "train/weight_update.hpp"

#include <cmath>

namespace heliograph {
namespace {

template <class T>
std::span<T> part(std::span<T> flat, Optimizer::Range range) {
  return flat.subspan(static_cast<std::size_t>(range.begin),
                      static_cast<std::size_t>(range.end - range.begin));
}

}  // namespace

Optimizer make_optimizer(const TrainOptions& options, const Parameters& parameters, int rank,
                         int ranks, MemoryAccount* account) {
  const bool shares = options.exchange.gradient_bits == Bits::fp32;
  return {options.optimizer, parameters, shares ? rank : 0, shares ? ranks : 1, account};
}

WeightUpdate::WeightUpdate(const TrainOptions& options, const Parameters& parameters,
                           Communicator& comm, Kernels& kernels, PhaseClock& times,
                           MemoryAccount* account, MemoryAccount* device_account)
    : parameters_(parameters),
      comm_(comm),
      kernels_(kernels),
      times_(times),
      optimizer_(make_optimizer(options, parameters, comm.rank(), comm.size(), device_account)),
      page_locked_(kernels.device().page_locked()),
      sums_(comm, Channel::weights, account, [this](std::size_t sum) { update(complete_[sum]); }),
      norm_(comm, Channel::weights, account) {
  const Bits bits = options.exchange.gradient_bits;
  if (bits != Bits::fp32 && comm.size() > 1) {
    integers_.emplace(comm, Channel::weights, bit_count(bits), options.seed,
                      kernels.device().threads(), account);
  }
  if (on_host()) return;
  const auto bytes = static_cast<std::size_t>(parameters.flat_size()) * sizeof(float);
  gradients_ = Buffer(bytes, MemoryUse::gradients, &page_locked_);
  if (comm.size() > 1 && !integers_) weights_ = Buffer(bytes, MemoryUse::weights, &page_locked_);
}

std::span<const float> WeightUpdate::gradients() const {
  return on_host() ? parameters_.flat_gradients_f32() : gradients_.as<float>();
}

void WeightUpdate::begin(double lr, Clock clock) {
  clock_ = clock;
  optimizer_.begin_step(lr);
  complete_.clear();
  squares_ = 0;
}

void WeightUpdate::complete(std::int64_t begin, std::int64_t end) {
  if (!overlaps()) return;
  complete_.push_back({begin, end});
  begin_sum(complete_.back());
}

void WeightUpdate::begin_sum(Optimizer::Range range) {
  const PhaseTimer timer(times_.allreduce);
  if (!on_host()) {
    // A single rank gathers nothing.
    const std::span<float> weights = weights_.as<float>();
    sums_.begin(part(gradients_.as<float>(), range),
                weights.empty() ? weights : part(weights, range));
    return;
  }
  const std::span<float> weights = part(parameters_.flat_values(), range);
  if (const auto fp64 = parameters_.flat_gradients_f64(); !fp64.empty()) {
    sums_.begin(part(fp64, range), weights);
  } else {
    sums_.begin(part(parameters_.flat_gradients_f32(), range), weights);
  }
}

void WeightUpdate::release() {
  if (!overlaps() || optimizer_.clips()) return;  // Nothing can be updated yet.
  const PhaseTimer timer(times_.allreduce);
  sums_.release();
}

void WeightUpdate::finish() {
  Device& device = kernels_.device();
  if (!on_host()) {
    device.download(gradients_.data(), parameters_.flat_gradients_f32().data(), gradients_.size());
  }
  if (!overlaps()) complete_.push_back({0, parameters_.flat_size()});
  if (integers_) return update_all();
  if (!overlaps()) begin_sum(complete_.back());
  if (optimizer_.clips()) clip();
  {
    const PhaseTimer timer(times_.allreduce);
    sums_.finish();
  }
  if (weights_.size() > 0) {
    device.upload_page_locked(parameters_.flat_values().data(), weights_.data(), weights_.size());
  }
}

/// Sums gradients as integers and updates all weights, as every rank does.
void WeightUpdate::update_all() {
  const std::span<float> computed = parameters_.flat_gradients_f32();
  const std::span<float> gradients = on_host() ? computed : gradients_.as<float>();
  {
    const PhaseTimer timer(times_.allreduce);
    integers_->sum(gradients, clock_);
  }
  const double squares = squares_of(complete_.back());
  if (comm_.rank() == 0) squares_ = squares;
  optimizer_.clip(std::sqrt(squares));
  if (!on_host()) {
    kernels_.device().upload_page_locked(computed.data(), gradients.data(), computed.size_bytes());
  }
  optimizer_.update(parameters_, complete_.back(), kernels_);
}

/// Scales the gradients if their norm over all ranks is too large.
void WeightUpdate::clip() {
  const PhaseTimer timer(times_.allreduce);
  sums_.finish_sums();
  for (const Optimizer::Range& range : complete_) squares_ += squares_of(optimizer_.owned(range));
  double squares = squares_;
  norm_.sum(std::span<double>(&squares, 1));
  optimizer_.clip(std::sqrt(squares));
}

/// Updates this rank's weights of a range, whose gradients are summed.
void WeightUpdate::update(Optimizer::Range range) {
  const Optimizer::Range owned = optimizer_.owned(range);
  double seconds = 0;
  {
    const PhaseTimer timer(seconds);
    if (!optimizer_.clips()) squares_ += squares_of(owned);
    const std::span<float> weights = part(parameters_.flat_values(), owned);
    if (weights_.size() > 0) {
      const auto gradients = part(gradients_.as<float>(), owned);
      kernels_.device().upload_page_locked(part(parameters_.flat_gradients_f32(), owned).data(),
                                           gradients.data(), gradients.size_bytes());
    }
    optimizer_.update(parameters_, range, kernels_);
    if (weights_.size() > 0) {
      kernels_.device().download(part(weights_.as<float>(), owned).data(), weights.data(),
                                 weights.size_bytes());
    }
  }
  times_.allreduce -= seconds;  // The caller's timer counts them, but they are no message.
}

double WeightUpdate::squares_of(Optimizer::Range range) const {
  double sum = 0;
  if (const auto fp64 = parameters_.flat_gradients_f64(); !fp64.empty()) {
    for (const double g : part(fp64, range)) sum += g * g;
  } else {
    for (const float g : part(gradients(), range)) sum += static_cast<double>(g) * g;
  }
  return sum;
}

}  // namespace heliograph
