#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/clock.hpp"
#include "comm/collectives.hpp"
#include "comm/sleep_for.hpp"
#include "support/allocations.hpp"

namespace heliograph::test {

/// The messages of training epochs: two rounds of halos in flight and an all-reduce beside them.
class TransportEpochs {
 public:
  explicit TransportEpochs(Communicator& comm) : comm_(comm), all_reduce_(comm, Channel::weights) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer == comm.rank()) continue;
      const auto bytes = static_cast<std::size_t>(3000 + 40'000 * ((peer + comm.rank()) % 2));
      for (auto* side : {&out_, &in_}) side->emplace_back(bytes * kInFlight);
      bytes_.push_back(bytes);
    }
    sends_.resize(bytes_.size());
    receives_.resize(bytes_.size());
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const auto slot = static_cast<std::size_t>(round) % kInFlight;
      comm_.wait(tickets_[slot]);
      std::size_t i = 0;
      for (int peer = 0; peer < comm_.size(); ++peer) {
        if (peer == comm_.rank()) continue;
        sends_[i] = {peer, out_[i].data() + slot * bytes_[i], bytes_[i]};
        receives_[i] = {peer, in_[i].data() + slot * bytes_[i], bytes_[i]};
        ++i;
      }
      tickets_[slot] = comm_.post(Channel::halo, sends_, receives_);
      all_reduce_.sum(std::span<float>(weights_));
      barrier(comm_, Channel::evaluation);
    }
    for (Ticket& ticket : tickets_) comm_.wait(ticket);
    barrier(comm_, Channel::evaluation);
  }

 private:
  static constexpr std::size_t kInFlight = 2;
  Communicator& comm_;
  AllReduce all_reduce_;
  std::vector<std::vector<std::byte>> out_, in_;
  std::vector<std::size_t> bytes_;
  std::vector<SendMessage> sends_;
  std::vector<RecvMessage> receives_;
  std::array<Ticket, kInFlight> tickets_{};
  std::vector<float> weights_ = std::vector<float>(20'000, 1.0F);
};

/// The allocations of this process in `rounds` rounds, less those of an equally long time in which
/// all ranks do nothing: the number of signs of life depends on time, not on rounds.
inline std::int64_t allocations_of_rounds(Communicator& comm, TransportEpochs& epochs, int rounds) {
  barrier(comm, Channel::evaluation);
  const double began = monotonic_seconds();
  const std::int64_t before = allocations();
  epochs.run(rounds);
  const std::int64_t between = allocations();
  sleep_for(monotonic_seconds() - began);
  return (between - before) - (allocations() - between);
}

}  // namespace heliograph::test
