#include "train/weight_update.hpp"

#include <cmath>

namespace heliograph {
namespace {

template <class T>
std::span<T> part(std::span<T> flat, Optimizer::Range range) {
  return flat.subspan(static_cast<std::size_t>(range.begin),
                      static_cast<std::size_t>(range.end - range.begin));
}

std::optional<IntegerSum> make_integer_sum(const TrainOptions& options, Communicator& comm,
                                           Kernels& kernels, MemoryAccount* account) {
  const Bits bits = options.exchange.gradient_bits;
  if (bits == Bits::fp32 || comm.size() == 1) return std::nullopt;
  return std::optional<IntegerSum>(std::in_place, comm, Channel::weights, bit_count(bits),
                                   options.seed, kernels.device().threads(), account);
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
      range_squares_(sizeof(double), MemoryUse::workspace, device_account),
      integers_(make_integer_sum(options, comm, kernels, account)),
      sums_(
          comm, Channel::weights, stages() ? account : device_account,
          [this](std::size_t sum) { update(complete_[sum]); },
          on_host() || stages() ? nullptr : &kernels),
      norm_(comm, Channel::weights, account) {
  if (!on_host() && !integers_) sums_.reserve(static_cast<std::size_t>(parameters.flat_size()));
  if (!stages()) return;
  const auto bytes = static_cast<std::size_t>(parameters.flat_size()) * sizeof(float);
  gradients_ = Buffer(bytes, MemoryUse::gradients, &page_locked_);
  if (!integers_) weights_ = Buffer(bytes, MemoryUse::weights, &page_locked_);
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
  if (stages()) {
    sums_.begin(part(gradients_.as<float>(), range), part(weights_.as<float>(), range));
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
  // What follows would wait for backward, whose time is not that of messages.
  const bool waits = comm_.size() > 1 && !comm_.orders_on_device(Channel::weights);
  if (waits || optimizer_.clips()) device.finish();
  if (stages()) {
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
  if (stages()) {
    device.upload_page_locked(parameters_.flat_values().data(), weights_.data(), weights_.size());
  }
  if (!on_host() && !optimizer_.clips()) read_squares();
}

/// Sums gradients as integers and updates all weights, as every rank does.
void WeightUpdate::update_all() {
  const std::span<float> computed = parameters_.flat_gradients_f32();
  const std::span<float> gradients = stages() ? gradients_.as<float>() : computed;
  {
    const PhaseTimer timer(times_.allreduce);
    integers_->sum(gradients, clock_);
  }
  if (stages()) {
    kernels_.device().upload_page_locked(computed.data(), gradients.data(), computed.size_bytes());
  }
  add_squares(complete_.back());
  if (!on_host() && !optimizer_.clips()) read_squares();
  optimizer_.clip(std::sqrt(squares_));
  optimizer_.update(parameters_, complete_.back(), kernels_);
  if (comm_.rank() != 0) squares_ = 0;  // Every rank has computed the same.
}

/// Scales the gradients if their norm over all ranks is too large.
void WeightUpdate::clip() {
  const PhaseTimer timer(times_.allreduce);
  sums_.finish_sums();
  for (const Optimizer::Range& range : complete_) {
    upload_sums(range);
    add_squares(optimizer_.owned(range));
  }
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
    if (!optimizer_.clips()) {
      upload_sums(range);
      add_squares(owned);
    }
    optimizer_.update(parameters_, range, kernels_);
    if (stages()) {
      const std::span<float> weights = part(parameters_.flat_values(), owned);
      kernels_.device().download(part(weights_.as<float>(), owned).data(), weights.data(),
                                 weights.size_bytes());
    }
  }
  times_.allreduce -= seconds;  // The caller's timer counts them, but they are no message.
}

/// Gives the device those gradients that this rank has summed on the host.
void WeightUpdate::upload_sums(Optimizer::Range range) {
  if (!stages()) return;
  const Optimizer::Range owned = optimizer_.owned(range);
  const std::span<float> sums = part(gradients_.as<float>(), owned);
  kernels_.device().upload_page_locked(part(parameters_.flat_gradients_f32(), owned).data(),
                                       sums.data(), sums.size_bytes());
}

/// Asks for the sum of squares of a range's gradients; on a device it is read later.
void WeightUpdate::add_squares(Optimizer::Range range) {
  GradientView gradients{nullptr, nullptr, 1, range.end - range.begin};
  if (const auto fp64 = parameters_.flat_gradients_f64(); !fp64.empty()) {
    gradients.f64 = fp64.data() + range.begin;
  } else {
    gradients.f32 = parameters_.flat_gradients_f32().data() + range.begin;
  }
  kernels_.sum_of_squares(gradients, range_squares_.as<double>().data());
  if (on_host() || optimizer_.clips()) read_squares();
}

/// Adds the sum of squares that kernels have made. Waits for the device.
void WeightUpdate::read_squares() {
  double squares = 0;
  kernels_.device().download(&squares, range_squares_.data(), sizeof(squares));
  squares_ += squares;
}

}  // namespace heliograph
