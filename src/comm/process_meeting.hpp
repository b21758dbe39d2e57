#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_mesh.hpp"

namespace heliograph {

/// What two processes say to each other on a new connection: the higher rank calls, the lower one
/// answers, and the higher one chooses one of the connections that were answered.
struct Hello {
  enum class Word : std::int32_t { call = 1, answer, choose };
  std::uint64_t token = 0;
  std::int32_t from = -1;
  std::int32_t to = -1;
  Word word = Word::call;
  std::int32_t unused = 0;
};

/// Makes one rank's connections to all others, all at the same time: a host that is slow, an
/// address that swallows packets or a stranger at the port holds up nobody else for long.
class ProcessMeeting {
 public:
  /// References must outlive it. `listener` is non-blocking.
  ProcessMeeting(int rank, std::span<const ProcessAddress> all, const Socket& listener);

  /// Sockets by rank, the own one closed. Throws Error: peer_lost (names the first rank that was
  /// not met within `seconds`), resource (no descriptor is left); what `check` throws, which is
  /// called now and then.
  std::vector<Socket> meet(double seconds, const std::function<void()>& check);

 private:
  enum class State : std::uint8_t { connecting, called, accepted, answered, over };
  struct Link {
    Socket socket;
    State state = State::accepted;
    int peer = -1;  ///< Once it is known.
    double began = 0;
    Hello heard;
    std::size_t heard_bytes = 0;
  };

  bool complete() const { return met_ == sockets_.size() - 1; }
  void call_more(double now);
  void call(int peer, double now);
  void call(int peer, const InternetAddress& address, double now);
  void accept_all(double now);
  void serve(Link& link);
  bool say(const Link& link, Hello::Word word) const;
  bool hear(Link& link);
  void understand(Link& link);
  void keep(Link& link);
  void drop_what_is_over(double now);

  const int rank_;
  const std::span<const ProcessAddress> all_;
  const Socket& listener_;
  std::vector<Socket> sockets_;
  std::size_t met_ = 0;
  std::vector<Link> links_;
  std::vector<int> calls_;         ///< Links under way to each lower rank.
  std::vector<double> called_at_;  ///< When each lower rank was called last.
};

}  // namespace heliograph
