#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/placed.hpp"
#include "graph/shard.hpp"

namespace heliograph {

/// In which order a rank makes the messages of a halo plan, and which of their rows it need not
/// encode because an earlier message holds the same bytes: rounding noise is keyed by node, not
/// by receiver. Ranks begin with their next neighbour by number, so they do not all address the
/// same one first.
class SendSchedule {
 public:
  /// Rows of this message from `to` on are those of the earlier message from `from` on.
  struct Run {
    std::int32_t from;
    std::int32_t to;
    std::int32_t rows;
  };
  struct Copies {
    std::size_t message;  ///< Index of the earlier message.
    std::vector<Run> runs;
  };
  struct Message {
    int peer = 0;
    const std::vector<std::int32_t>* send_rows = nullptr;  ///< The plan's.
    std::int64_t first_row = 0;  ///< Of the message, in the send buffer; messages follow in order.
    bool encodes_all = true;
    /// Unless it encodes all: the source rows to encode and their places in the message, and what
    /// is copied into the other places.
    std::vector<std::int32_t> new_rows, new_positions;
    std::vector<Copies> copies;

    std::int64_t rows() const { return static_cast<std::int64_t>(send_rows->size()); }
    /// The source rows to encode, ascending.
    const std::vector<std::int32_t>& fresh_rows() const {
      return encodes_all ? *send_rows : new_rows;
    }
  };

  /// The plan must outlive the schedule. Without `share_rows` every message is encoded in full.
  SendSchedule(const HaloPlan& plan, int rank, int ranks, bool share_rows);

  /// The messages that hold rows, in the order in which they are sent.
  const std::vector<Message>& messages() const { return messages_; }
  /// Rows of all messages.
  std::int64_t rows() const { return rows_; }
  /// The bytes of memory that its lists take.
  std::int64_t bytes() const;

  /// Copies the source rows of all messages, one after the other, to where kernels read them, if
  /// that is not the host's memory. For schedules that share no rows.
  void place(Device& device, MemoryUse use, MemoryAccount* account);
  /// The source rows that `place` has copied, `rows()` of them.
  std::span<const std::int32_t> placed_rows() const {
    return {placed_rows_.data(), static_cast<std::size_t>(rows_)};
  }

 private:
  void share(const HaloPlan& plan);

  std::vector<Message> messages_;
  std::int64_t rows_ = 0;
  Placed<std::int32_t> placed_rows_;
};

}  // namespace heliograph
