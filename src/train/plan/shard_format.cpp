#include "train/plan/shard_format.hpp"

#include <fmt/format.h>

#include "core/throw_error.hpp"

namespace heliograph {

std::string shard_file_name(int rank) { return fmt::format("rank-{:04}.shard", rank); }

const std::vector<std::string>& shard_option_names() {
  static const std::vector<std::string> names{"split",     "split-seed", "stratified", "normalize",
                                              "inductive", "parts",      "node-order"};
  return names;
}

const std::vector<std::string>& cut_option_names() {
  static const std::vector<std::string> names{"partitioner", "objective", "partition-seed",
                                              "balance-train"};
  return names;
}

FlatPlan flatten(const HaloPlan& plan) {
  FlatPlan flat;
  for (const HaloPlan::Peer& peer : plan.peers) {
    flat.peers.insert(flat.peers.end(), {peer.rank, peer.halo_begin, peer.halo_end,
                                         static_cast<std::int32_t>(peer.sent.size())});
    flat.send_rows.insert(flat.send_rows.end(), peer.sent.begin(), peer.sent.end());
  }
  return flat;
}

HaloPlan unflatten(const FlatPlan& flat, std::int32_t inner_rows, int rank, int ranks,
                   const std::filesystem::path& file) {
  const auto require = [&](bool holds) {
    if (holds) return;
    throw_error(ErrorCode::bad_input, "{}: its halo plan contradicts itself", file.string());
  };
  HaloPlan plan;
  plan.inner_rows = inner_rows;
  require(flat.peers.size() % 4 == 0);
  auto row = flat.send_rows.begin();
  int before = -1;
  for (std::size_t i = 0; i < flat.peers.size(); i += 4) {
    HaloPlan::Peer peer;
    peer.rank = flat.peers[i];
    peer.halo_begin = flat.peers[i + 1];
    peer.halo_end = flat.peers[i + 2];
    const std::int32_t sent = flat.peers[i + 3];
    require(peer.rank > before && peer.rank != rank && peer.rank < ranks);
    require(peer.halo_begin == plan.halo_rows && peer.halo_end >= peer.halo_begin);
    require(sent >= 0 && sent <= flat.send_rows.end() - row);
    std::vector<std::int32_t>& rows = peer.sent;
    rows.assign(row, row + sent);
    row += sent;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      require(rows[r] >= (r == 0 ? 0 : rows[r - 1] + 1) && rows[r] < inner_rows);
    }
    before = peer.rank;
    plan.halo_rows = peer.halo_end;
    plan.peers.push_back(std::move(peer));
  }
  require(row == flat.send_rows.end());
  return plan;
}

}  // namespace heliograph
