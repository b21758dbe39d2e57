#include "comm/exchange/setup_exchange.hpp"

#include <vector>

namespace heliograph {
namespace {

/// Exchanges values of rows with every peer, in one message each unless it is empty. Row r of
/// `inner` begins at inner_begin(r), and row r of the halo, which is returned, at halo_begin(r).
template <class T, class InnerBegin, class HaloBegin>
std::vector<T> exchange(Communicator& comm, const HaloPlan& plan, const T* inner,
                        const InnerBegin& inner_begin, const HaloBegin& halo_begin) {
  std::vector<T> halo(static_cast<std::size_t>(halo_begin(plan.halo_rows)));
  std::vector<std::vector<T>> out;
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  for (const HaloPlan::Peer& peer : plan.peers) {
    std::vector<T>& sent = out.emplace_back();
    for (const std::int32_t row : peer.sent) {
      sent.insert(sent.end(), inner + inner_begin(row), inner + inner_begin(row + 1));
    }
    if (!sent.empty()) {
      sends.push_back(
          {peer.rank, reinterpret_cast<const std::byte*>(sent.data()), sent.size() * sizeof(T)});
    }
    const auto begin = static_cast<std::size_t>(halo_begin(peer.halo_begin));
    const auto end = static_cast<std::size_t>(halo_begin(peer.halo_end));
    if (begin != end) {
      receives.push_back({peer.rank, reinterpret_cast<std::byte*>(halo.data() + begin),
                          (end - begin) * sizeof(T)});
    }
  }
  comm.wait(comm.post(Channel::evaluation, sends, receives));
  return halo;
}

/// Exchanges one value a row.
template <class T>
std::vector<T> exchange(Communicator& comm, const HaloPlan& plan, const T* inner) {
  const auto begin = [](std::int32_t row) { return row; };
  return exchange(comm, plan, inner, begin, begin);
}

}  // namespace

std::vector<std::int64_t> exchange_numbers(Communicator& comm, const HaloPlan& plan,
                                           std::span<const std::int64_t> inner) {
  return exchange(comm, plan, inner.data());
}

std::vector<double> sum_to_owners(Communicator& comm, const HaloPlan& plan,
                                  std::span<const double> halo) {
  std::vector<std::vector<double>> values;
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  for (const HaloPlan::Peer& peer : plan.peers) {
    const auto begin = static_cast<std::size_t>(peer.halo_begin);
    const auto rows = static_cast<std::size_t>(peer.halo_end) - begin;
    const auto sent = std::as_bytes(halo.subspan(begin, rows));
    if (rows > 0) sends.push_back({peer.rank, sent.data(), sent.size()});
    const auto received = std::as_writable_bytes(std::span(values.emplace_back(peer.sent.size())));
    if (!received.empty()) receives.push_back({peer.rank, received.data(), received.size()});
  }
  comm.wait(comm.post(Channel::evaluation, sends, receives));
  std::vector<double> sums(static_cast<std::size_t>(plan.inner_rows), 0.0);
  for (std::size_t p = 0; p < values.size(); ++p) {
    for (std::size_t i = 0; i < values[p].size(); ++i) {
      sums[static_cast<std::size_t>(plan.peers[p].sent[i])] += values[p][i];
    }
  }
  return sums;
}

SparseRows exchange_sparse_rows(Communicator& comm, const HaloPlan& plan, const SparseView& inner) {
  const auto inner_begin = [&](std::int32_t row) { return inner.offsets[row]; };
  std::vector<std::int32_t> lengths;
  for (std::int32_t row = 0; row < plan.inner_rows; ++row) {
    lengths.push_back(static_cast<std::int32_t>(inner_begin(row + 1) - inner_begin(row)));
  }
  SparseRows halo;
  halo.cols = inner.cols;
  for (const std::int32_t length : exchange(comm, plan, lengths.data())) {
    halo.offsets.push_back(halo.offsets.back() + length);
  }
  const auto halo_begin = [&](std::int32_t row) {
    return halo.offsets[static_cast<std::size_t>(row)];
  };
  halo.columns = exchange(comm, plan, inner.columns, inner_begin, halo_begin);
  halo.values = exchange(comm, plan, inner.values, inner_begin, halo_begin);
  return halo;
}

}  // namespace heliograph
