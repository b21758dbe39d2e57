#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace heliograph::test {

/// The communicator of a rank that is alone. Keeps what is posted, delivers nothing, never waits.
class RecordingCommunicator final : public Communicator {
 public:
  struct Post {
    bool sending;
    int peer;
    std::size_t size;
    std::vector<std::byte> bytes;  ///< Of a send: its bytes when it was posted.
  };

  RecordingCommunicator(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int size() const override { return ranks_; }
  Ticket post(Channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override {
    for (const SendMessage& s : sends) {
      posts.push_back({true, s.peer, s.bytes, {s.data, s.data + s.bytes}});
      bytes_sent_ += static_cast<std::int64_t>(s.bytes);
    }
    for (const RecvMessage& r : receives) posts.push_back({false, r.peer, r.bytes, {}});
    return {};
  }
  void wait(Ticket) override {}
  bool done(Ticket) override { return true; }
  void abort(const std::string& reason) noexcept override { aborted += reason; }
  std::int64_t bytes_sent(Channel) const override { return bytes_sent_; }

  std::vector<Post> posts;
  std::string aborted;

 private:
  int rank_;
  int ranks_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace heliograph::test
