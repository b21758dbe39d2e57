#include "comm/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace heliograph {
namespace {

constexpr std::size_t kLine = 64;  // Bytes; scratch of each rank starts on its own line.

std::size_t round_up(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// Which of `count` elements rank `block` of `ranks` sums.
struct Block {
  Block(std::size_t count, int block, int ranks)
      : begin(count * static_cast<std::size_t>(block) / static_cast<std::size_t>(ranks)),
        end(count * (static_cast<std::size_t>(block) + 1) / static_cast<std::size_t>(ranks)) {}
  std::size_t size() const { return end - begin; }

  std::size_t begin;
  std::size_t end;
};

/// mine[i] = sum over ranks of their values, from rank 0 on; `others` holds the blocks of all
/// other ranks, `stride` elements apart and in order.
template <class T>
void sum_in_rank_order(std::span<T> mine, const T* others, std::size_t stride, int rank,
                       int ranks) {
  std::array<T, 256> sum;
  for (std::size_t begin = 0; begin < mine.size(); begin += sum.size()) {
    const std::size_t count = std::min(sum.size(), mine.size() - begin);
    const T* other = others + begin;
    for (int r = 0; r < ranks; ++r) {
      const T* values = mine.data() + begin;
      if (r != rank) {
        values = other;
        other += stride;
      }
      if (r == 0) {
        std::copy_n(values, count, sum.begin());
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
      }
    }
    std::copy_n(sum.begin(), count, mine.data() + begin);
  }
}

}  // namespace

template <class T>
void AllReduce::reduce(std::span<T> values) {
  const int ranks = comm_.size();
  const int rank = comm_.rank();
  if (ranks == 1 || values.empty()) return;

  const auto bytes_of = [&](int r) { return Block(values.size(), r, ranks).size() * sizeof(T); };
  const auto data_of = [&](int r) {
    return reinterpret_cast<std::byte*>(values.data() + Block(values.size(), r, ranks).begin);
  };
  const std::size_t stride = round_up(bytes_of(rank));
  const std::size_t scratch_bytes = stride * static_cast<std::size_t>(ranks - 1);
  if (scratch_.size() < scratch_bytes) {
    scratch_ = Buffer(scratch_bytes, MemoryRoom::workspace, account_);
  }

  sends_.clear();
  receives_.clear();
  std::byte* slot = scratch_.data();
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    sends_.push_back({peer, data_of(peer), bytes_of(peer)});
    receives_.push_back({peer, slot, bytes_of(rank)});
    slot += stride;
  }
  comm_.wait(comm_.post(channel_, sends_, receives_));

  const Block mine(values.size(), rank, ranks);
  sum_in_rank_order(values.subspan(mine.begin, mine.size()),
                    reinterpret_cast<const T*>(scratch_.data()), stride / sizeof(T), rank, ranks);

  sends_.clear();
  receives_.clear();
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    sends_.push_back({peer, data_of(rank), bytes_of(rank)});
    receives_.push_back({peer, data_of(peer), bytes_of(peer)});
  }
  comm_.wait(comm_.post(channel_, sends_, receives_));
}

template void AllReduce::reduce(std::span<float>);
template void AllReduce::reduce(std::span<double>);
template void AllReduce::reduce(std::span<std::int64_t>);

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
