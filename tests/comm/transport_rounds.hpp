#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "comm/communicator.hpp"

namespace heliograph::test {

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Both ends compute the contents of a message from its sender, receiver, channel and round.
inline std::uint64_t key_of(int from, int to, Channel channel, int round) {
  return mix(mix(mix(static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to)) +
                 static_cast<std::uint64_t>(channel)) +
             static_cast<std::uint64_t>(round));
}

inline std::size_t size_of(std::uint64_t key) {
  switch (key % 8) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return 200'000 + key % 200'000;  // Too large to be copied on post or as one piece.
    default:
      return key % 20'000;
  }
}

inline std::byte byte_of(std::uint64_t key, std::size_t i) {
  return static_cast<std::byte>((key >> 3) + i * 7 + i / 251);
}

/// A batch to and from every peer whose buffers live as long as the batch.
struct Batch {
  Batch(Communicator& comm, Channel channel, int round) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer == comm.rank()) continue;
      const auto send_key = key_of(comm.rank(), peer, channel, round);
      const auto receive_key = key_of(peer, comm.rank(), channel, round);
      buffers.emplace_back(size_of(send_key));
      for (std::size_t i = 0; i < buffers.back().size(); ++i) {
        buffers.back()[i] = byte_of(send_key, i);
      }
      sends.push_back({peer, buffers.back().data(), buffers.back().size()});
      sent += static_cast<std::int64_t>(buffers.back().size());
      buffers.emplace_back(size_of(receive_key), std::byte{0xEE});
      receives.push_back({peer, buffers.back().data(), buffers.back().size()});
      receive_keys.push_back(receive_key);
    }
    ticket = comm.post(channel, sends, receives);
  }

  bool arrived() const {
    for (std::size_t m = 0; m < receives.size(); ++m) {
      for (std::size_t i = 0; i < receives[m].bytes; ++i) {
        if (receives[m].data[i] != byte_of(receive_keys[m], i)) return false;
      }
    }
    return true;
  }

  std::deque<std::vector<std::byte>> buffers;
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  std::vector<std::uint64_t> receive_keys;
  std::int64_t sent = 0;
  Ticket ticket;
};

/// All-to-all on every channel, with up to four rounds in flight on each.
inline void exchange_rounds(Communicator& comm, int rounds, std::atomic<int>& wrong) {
  std::array<std::deque<Batch>, kChannels> in_flight;
  std::array<std::int64_t, kChannels> sent{};
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  const auto retire = [&](std::deque<Batch>& batches) {
    comm.wait(batches.front().ticket);
    if (!comm.done(batches.front().ticket) || !batches.front().arrived()) ++wrong;
    batches.pop_front();
  };
  for (int round = 0; round < rounds; ++round) {
    for (int c = 0; c < kChannels; ++c) {
      auto& batches = in_flight[static_cast<std::size_t>(c)];
      batches.emplace_back(comm, static_cast<Channel>(c), round);
      sent[static_cast<std::size_t>(c)] += batches.back().sent;
      while (batches.size() > random() % 4 + 1) retire(batches);
    }
  }
  for (auto& batches : in_flight) {
    while (!batches.empty()) retire(batches);
  }
  for (int c = 0; c < kChannels; ++c) {
    if (comm.bytes_sent(static_cast<Channel>(c)) != sent[static_cast<std::size_t>(c)]) ++wrong;
  }
}

}  // namespace heliograph::test
