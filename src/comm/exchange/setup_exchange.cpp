#include "comm/exchange/setup_exchange.hpp"

#include <cstring>
#include <vector>

namespace heliograph {
namespace {

/// Exchanges one message of T with every peer, except empty ones, and waits for them.
template <class T>
void exchange(Communicator& comm, const std::vector<int>& peers,
              const std::vector<std::vector<T>>& out, std::vector<std::vector<T>>& in) {
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  for (std::size_t p = 0; p < peers.size(); ++p) {
    if (!out[p].empty()) {
      sends.push_back(
          {peers[p], reinterpret_cast<const std::byte*>(out[p].data()), out[p].size() * sizeof(T)});
    }
    if (!in[p].empty()) {
      receives.push_back(
          {peers[p], reinterpret_cast<std::byte*>(in[p].data()), in[p].size() * sizeof(T)});
    }
  }
  comm.wait(comm.post(Channel::evaluation, sends, receives));
}

}  // namespace

std::vector<std::int64_t> exchange_numbers(Communicator& comm, const HaloPlan& plan,
                                           std::span<const std::int64_t> inner) {
  std::vector<int> peers;
  std::vector<std::vector<std::int64_t>> out, in;
  for (const HaloPlan::Peer& peer : plan.peers) {
    peers.push_back(peer.rank);
    std::vector<std::int64_t>& sent = out.emplace_back();
    for (const std::int32_t row : peer.sent.entries) {
      sent.push_back(inner[static_cast<std::size_t>(row)]);
    }
    in.emplace_back(static_cast<std::size_t>(peer.halo_end - peer.halo_begin));
  }
  exchange(comm, peers, out, in);
  std::vector<std::int64_t> halo;
  for (const std::vector<std::int64_t>& part : in) {
    halo.insert(halo.end(), part.begin(), part.end());
  }
  return halo;
}

SparseRows exchange_sparse_rows(Communicator& comm, const HaloPlan& plan, const SparseView& inner) {
  const std::size_t n = plan.peers.size();
  std::vector<int> peers;
  std::vector<std::vector<std::int32_t>> lengths_out(n), lengths_in(n), columns_out(n),
      columns_in(n);
  std::vector<std::vector<float>> values_out(n), values_in(n);
  for (std::size_t p = 0; p < n; ++p) {
    const HaloPlan::Peer& peer = plan.peers[p];
    peers.push_back(peer.rank);
    for (const std::int32_t row : peer.sent.entries) {
      const std::int64_t begin = inner.offsets[row];
      const std::int64_t end = inner.offsets[row + 1];
      lengths_out[p].push_back(static_cast<std::int32_t>(end - begin));
      columns_out[p].insert(columns_out[p].end(), inner.columns + begin, inner.columns + end);
      values_out[p].insert(values_out[p].end(), inner.values + begin, inner.values + end);
    }
    lengths_in[p].resize(static_cast<std::size_t>(peer.halo_end - peer.halo_begin));
  }
  exchange(comm, peers, lengths_out, lengths_in);

  SparseRows halo;
  halo.cols = inner.cols;
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t entries = 0;
    for (const std::int32_t length : lengths_in[p]) {
      entries += static_cast<std::size_t>(length);
      halo.offsets.push_back(halo.offsets.back() + length);
    }
    columns_in[p].resize(entries);
    values_in[p].resize(entries);
  }
  exchange(comm, peers, columns_out, columns_in);
  exchange(comm, peers, values_out, values_in);
  for (std::size_t p = 0; p < n; ++p) {
    halo.columns.insert(halo.columns.end(), columns_in[p].begin(), columns_in[p].end());
    halo.values.insert(halo.values.end(), values_in[p].begin(), values_in[p].end());
  }
  return halo;
}

}  // namespace heliograph
