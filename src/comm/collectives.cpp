#include "comm/collectives.hpp"

#include <algorithm>
#include <numeric>

#include "core/sum_in_rank_order.hpp"

namespace heliograph {
namespace {

/// The bytes from one rank's block in the scratch to the next one's, which begins a cache line.
std::size_t stride_of(std::size_t block_bytes) { return round_up(block_bytes, kLineBytes); }

template <class T>
void sum_blocks(std::byte* mine, const std::byte* others, std::size_t bytes, std::size_t stride,
                int rank, int ranks) {
  sum_in_rank_order(std::span(reinterpret_cast<T*>(mine), bytes / sizeof(T)),
                    reinterpret_cast<const T*>(others), stride / sizeof(T), rank, ranks);
}

}  // namespace

AllReduce::AllReduce(Communicator& comm, Channel channel, MemoryAccount* account, MakeResults make,
                     Kernels* kernels)
    : comm_(comm),
      channel_(channel),
      account_(account),
      make_(std::move(make)),
      kernels_(kernels),
      in_order_(kernels != nullptr && comm.orders_on_device(channel)) {}

AllReduce::~AllReduce() {
  if (begun_ > 0) comm_.abort("the run ended with an all-reduce under way");
}

template <class T, class R>
void AllReduce::start(std::span<T> values, std::span<R> results) {
  const auto bytes = [](auto span) { return reinterpret_cast<std::byte*>(span.data()); };
  const bool makes = bytes(values) != bytes(results);
  if (values.empty() || (comm_.size() == 1 && !makes)) return;
  if (begun_ == sums_.size()) sums_.emplace_back();
  Sum& sum = sums_[begun_];
  sum.values = {bytes(values), values.size(), sizeof(T)};
  sum.results = {bytes(results), results.size(), sizeof(R)};
  sum.makes = makes;
  sum.gathers_before = std::min(released_, std::max<std::size_t>(begun_, 1) - 1);
  sum.add = sum_blocks<T>;
  sum.added = false;
  ++begun_;
  if (!makes) released_ = begun_;
  while (advance(false)) {
  }
}

template void AllReduce::start(std::span<float>, std::span<float>);
template void AllReduce::start(std::span<double>, std::span<double>);
template void AllReduce::start(std::span<std::int64_t>, std::span<std::int64_t>);
template void AllReduce::start(std::span<double>, std::span<float>);

void AllReduce::release() {
  released_ = begun_;
  while (advance(false)) {
  }
}

void AllReduce::finish_sums() {
  while (scattered_ < begun_) {
    if (!advance(false)) wait(sums_[gathered_].ticket);
  }
  for (std::size_t i = gathered_; i < begun_; ++i) add(sums_[i]);
}

void AllReduce::finish() {
  released_ = begun_;
  while (gathered_ < begun_) {
    if (!advance(true)) wait(sums_[gathered_].ticket);
  }
  for (std::size_t i = 0; i < begun_; ++i) wait(sums_[i].ticket);
  begun_ = scattered_ = released_ = gathered_ = 0;
}

/// Posts the next messages of the order, if they can be posted now. `last`: no more sums will
/// begin.
bool AllReduce::advance(bool last) {
  const bool scatters = scattered_ < begun_;
  if (scatters && gathered_ == sums_[scattered_].gathers_before) {
    scatter(sums_[scattered_]);
    ++scattered_;
    return true;
  }
  // The next sum's scatter goes before the gather of the latest sum that was scattered.
  const std::size_t end = scatters ? sums_[scattered_].gathers_before
                          : last   ? begun_
                                   : std::min(released_, std::max<std::size_t>(begun_, 1) - 1);
  if (gathered_ < end && (in_order_ || comm_.done(sums_[gathered_].ticket))) {
    gather(sums_[gathered_]);
    ++gathered_;
    return true;
  }
  return false;
}

std::pair<std::size_t, std::size_t> AllReduce::block(std::size_t count, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank);
  const auto all = static_cast<std::size_t>(ranks);
  return {count * r / all, count * (r + 1) / all};
}

std::span<std::byte> AllReduce::Array::block(int rank, int ranks) const {
  const auto [begin, end] = AllReduce::block(count, rank, ranks);
  return {data + begin * element_bytes, (end - begin) * element_bytes};
}

/// Makes room for what other ranks send of this rank's block. Returns the bytes between two ranks'.
std::size_t AllReduce::make_room(Sum& sum, std::size_t block_bytes) {
  const std::size_t stride = stride_of(block_bytes);
  const std::size_t scratch_bytes = stride * static_cast<std::size_t>(comm_.size() - 1);
  if (sum.scratch.size() < scratch_bytes) {
    sum.scratch = Buffer(scratch_bytes, MemoryUse::workspace, account_);
  }
  return stride;
}

void AllReduce::reserve(std::size_t count) {
  if (sums_.empty()) sums_.emplace_back();
  const auto [begin, end] = block(count, comm_.rank(), comm_.size());
  make_room(sums_.front(), (end - begin) * sizeof(float));
}

void AllReduce::scatter(Sum& sum) {
  const std::size_t bytes = sum.values.block(comm_.rank(), comm_.size()).size();
  const std::size_t stride = make_room(sum, bytes);
  std::byte* slot = sum.scratch.data();
  for (int peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    const auto theirs = sum.values.block(peer, comm_.size());
    sends_.push_back({peer, theirs.data(), theirs.size(), kernels_ != nullptr});
    receives_.push_back({peer, slot, bytes, kernels_ != nullptr});
    slot += stride;
  }
  sum.ticket = post();
}

void AllReduce::add(Sum& sum) {
  if (sum.added) return;
  wait(sum.ticket);
  const auto mine = sum.values.block(comm_.rank(), comm_.size());
  const std::size_t stride = stride_of(mine.size());
  if (kernels_ != nullptr && comm_.size() > 1) {
    kernels_->sum_in_rank_order(
        reinterpret_cast<float*>(mine.data()), sum.scratch.as<float>().data(),
        static_cast<std::int64_t>(mine.size() / sizeof(float)),
        static_cast<std::int64_t>(stride / sizeof(float)), comm_.rank(), comm_.size());
  } else if (comm_.size() > 1) {
    sum.add(mine.data(), sum.scratch.data(), mine.size(), stride, comm_.rank(), comm_.size());
  }
  sum.added = true;
}

void AllReduce::gather(Sum& sum) {
  add(sum);
  const auto mine = sum.results.block(comm_.rank(), comm_.size());
  if (sum.makes) make_(static_cast<std::size_t>(&sum - sums_.data()));
  for (int peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    const auto theirs = sum.results.block(peer, comm_.size());
    sends_.push_back({peer, mine.data(), mine.size(), kernels_ != nullptr});
    receives_.push_back({peer, theirs.data(), theirs.size(), kernels_ != nullptr});
  }
  sum.ticket = post();
}

/// Posts the messages in sends_ and receives_, behind the device's work, and empties both.
Ticket AllReduce::post() {
  if (sends_.empty()) return {};
  if (kernels_ != nullptr && !in_order_) kernels_->device().finish();
  const Ticket ticket = comm_.post(channel_, sends_, receives_);
  if (in_order_) comm_.flush_after(kernels_->device());
  sends_.clear();
  receives_.clear();
  return ticket;
}

/// Waits for messages, or lets the device's later work wait for them.
void AllReduce::wait(Ticket ticket) {
  if (in_order_) {
    comm_.wait_on(kernels_->device(), ticket);
  } else {
    comm_.wait(ticket);
  }
}

void barrier(Communicator& comm, Channel channel) {
  const int ranks = comm.size();
  const int rank = comm.rank();
  // Dissemination: after the round of distance d a rank knows that the 2 d - 1 before it came.
  for (int distance = 1; distance < ranks; distance *= 2) {
    const std::byte token{1};
    std::byte received{};
    const SendMessage send{(rank + distance) % ranks, &token, 1};
    const RecvMessage receive{(rank - distance + ranks) % ranks, &received, 1};
    comm.wait(comm.post(channel, {&send, 1}, {&receive, 1}));
  }
}

std::vector<std::byte> gather_to_root(Communicator& comm, Channel channel,
                                      std::span<const std::byte> mine) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::uint64_t my_bytes = mine.size();
  if (comm.rank() != 0) {
    const SendMessage size{0, reinterpret_cast<const std::byte*>(&my_bytes), sizeof(my_bytes)};
    comm.wait(comm.post(channel, {&size, 1}, {}));
    const SendMessage bytes{0, mine.data(), mine.size()};
    comm.wait(comm.post(channel, {&bytes, 1}, {}));
    return {};
  }

  std::vector<std::uint64_t> sizes(ranks, my_bytes);
  std::vector<RecvMessage> receives;
  for (std::size_t r = 1; r < ranks; ++r) {
    receives.push_back(
        {static_cast<int>(r), reinterpret_cast<std::byte*>(&sizes[r]), sizeof(std::uint64_t)});
  }
  comm.wait(comm.post(channel, {}, receives));

  std::vector<std::byte> all(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  std::copy(mine.begin(), mine.end(), all.begin());
  std::byte* to = all.data() + mine.size();
  receives.clear();
  for (std::size_t r = 1; r < ranks; ++r) {
    receives.push_back({static_cast<int>(r), to, sizes[r]});
    to += sizes[r];
  }
  comm.wait(comm.post(channel, {}, receives));
  return all;
}

}  // namespace heliograph
