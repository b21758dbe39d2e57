#include "comm/exchange/send_schedule.hpp"

#include <algorithm>

namespace heliograph {

SendSchedule::SendSchedule(const HaloPlan& plan, int rank, int ranks, bool share_rows, int pieces)
    : pieces_(pieces) {
  for (const HaloPlan::Peer& peer : plan.peers) {
    const auto rows = static_cast<std::int64_t>(peer.sent.size());
    for (int piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = piece_begin(rows, piece, pieces);
      const std::int64_t end = piece_begin(rows, piece + 1, pieces);
      if (begin == end) continue;
      Message message;
      message.peer = peer.rank;
      message.piece = piece;
      message.send_rows = std::span(peer.sent).subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end - begin));
      messages_.push_back(std::move(message));
    }
  }
  const auto distance = [&](const Message& m) { return (m.peer - rank + ranks) % ranks; };
  std::stable_sort(messages_.begin(), messages_.end(),
                   [&](const Message& a, const Message& b) { return distance(a) < distance(b); });
  for (Message& message : messages_) {
    message.first_row = rows_;
    rows_ += message.rows();
  }
  if (share_rows) share(plan);
}

void SendSchedule::share(const HaloPlan& plan) {
  // For each inner row, the first message that holds it and its position there.
  struct Place {
    std::int32_t message = -1;
    std::int32_t position = 0;
  };
  std::vector<Place> first(static_cast<std::size_t>(plan.inner_rows));
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    Message& message = messages_[m];
    const std::span<const std::int32_t> rows = message.send_rows;
    std::vector<std::vector<Run>> runs(m);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto position = static_cast<std::int32_t>(i);
      Place& place = first[static_cast<std::size_t>(rows[i])];
      if (place.message < 0) {
        place = {static_cast<std::int32_t>(m), position};
        message.new_rows.push_back(rows[i]);
        message.new_positions.push_back(position);
        continue;
      }
      std::vector<Run>& to = runs[static_cast<std::size_t>(place.message)];
      if (!to.empty() && to.back().from + to.back().rows == place.position &&
          to.back().to + to.back().rows == position) {
        ++to.back().rows;
      } else {
        to.push_back({place.position, position, 1});
      }
    }
    message.encodes_all = message.new_rows.size() == rows.size();
    if (message.encodes_all) {
      message.new_rows = std::vector<std::int32_t>();
      message.new_positions = std::vector<std::int32_t>();
      continue;
    }
    message.new_rows.shrink_to_fit();
    message.new_positions.shrink_to_fit();
    for (std::size_t source = 0; source < m; ++source) {
      if (runs[source].empty()) continue;
      runs[source].shrink_to_fit();
      message.copies.push_back({source, std::move(runs[source])});
    }
  }
}

void SendSchedule::list_distinct_rows(Device& device, MemoryUse use, MemoryAccount* account) {
  if (!distinct_.empty()) return;
  distinct_.reserve(static_cast<std::size_t>(rows_));
  std::vector<bool> seen;
  for (const Message& m : messages_) {
    seen.resize(std::max(seen.size(), static_cast<std::size_t>(m.send_rows.back()) + 1));
    for (const std::int32_t row : m.send_rows) {
      distinct_.push_back(seen[static_cast<std::size_t>(row)] ? -1 : row);
      seen[static_cast<std::size_t>(row)] = true;
    }
  }
  placed_distinct_ = Placed<std::int32_t>(distinct_, device, use, account);
}

std::int64_t SendSchedule::bytes() const {
  std::size_t bytes =
      messages_.capacity() * sizeof(Message) + distinct_.capacity() * sizeof(std::int32_t);
  for (const Message& m : messages_) {
    bytes += (m.new_rows.capacity() + m.new_positions.capacity()) * sizeof(std::int32_t) +
             m.copies.capacity() * sizeof(Copies);
    for (const Copies& copies : m.copies) bytes += copies.runs.capacity() * sizeof(Run);
  }
  return static_cast<std::int64_t>(bytes);
}

void SendSchedule::place(Device& device, MemoryUse use, MemoryAccount* account) {
  if (device.on_host()) return;
  std::vector<std::int32_t> all;
  all.reserve(static_cast<std::size_t>(rows_));
  for (const Message& m : messages_) {
    all.insert(all.end(), m.send_rows.begin(), m.send_rows.end());
  }
  placed_rows_ = Placed<std::int32_t>(all, device, use, account);
}

}  // namespace heliograph
