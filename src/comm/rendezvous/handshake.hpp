#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/rendezvous/socket.hpp"

namespace heliograph {

/// The header of a message between processes that connect, sent as plain bytes and followed by
/// `bytes` of payload. Of two ranks the higher one calls, the lower one answers, and the higher one
/// chooses one of the answered connections. The layout of the header is the same in every version,
/// so that an error can name another version; the layout of payloads may change.
struct Greeting {
  enum class Kind : std::uint32_t {
    call = 1,
    answer,
    choose,     ///< Payload, when ranks introduce themselves to rank 0: an Introduction.
    table,      ///< Rank 0 to all. Payload: the Introductions of all ranks.
    connected,  ///< To rank 0: this rank has all its connections; from rank 0: every rank has.
    elsewhere,  ///< The caller is of another run.
    refused,    ///< The caller is refused and must not retry. Payload: the reason.
    ended,      ///< Rank 0 gives up. Payload: the reason.
  };
  static constexpr std::array<char, 8> kMagic{'H', 'L', 'G', 'R', 'A', 'P', 'H', '\n'};
  static constexpr std::uint32_t kVersion = 2;

  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  Kind kind = Kind::call;
  std::int32_t from = -1;
  std::int32_t ranks = 0;
  std::uint64_t run = 0;
  std::int32_t to = -1;
  std::int32_t link = 0;  ///< Which of the connections between the two ranks.
  std::uint32_t bytes = 0;
  std::uint32_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<Greeting> && sizeof(Greeting) == 48);

/// A text as a payload, cut to kMostTextBytes.
std::span<const std::byte> payload_of(const std::string& text);
inline constexpr std::size_t kMostTextBytes = 1000;

/// A non-blocking socket that sends and receives greetings. Never reads past the last greeting.
class Connection {
 public:
  explicit Connection(Socket socket = Socket()) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  Socket release() { return std::move(socket_); }

  /// Sends what fits into the socket; `flush` sends the rest. Sets greeting.bytes.
  /// False, as of flush: the connection is broken.
  bool say(Greeting greeting, std::span<const std::byte> payload = {});
  bool flush();
  /// True as soon as a whole greeting is there. A payload above `most_bytes` ends the connection.
  bool hear(std::size_t most_bytes);
  /// The last greeting that was received. One with another `magic` has no payload.
  const Greeting& greeting() const { return greeting_; }
  std::span<const std::byte> payload() const { return payload_; }
  std::string text() const;

  /// `hear` has found that the connection is closed or broken.
  bool ended() const { return ended_; }
  /// What poll() is to wait for.
  pollfd entry() const;

 private:
  Socket socket_;
  std::vector<std::byte> unsent_;
  Greeting greeting_;
  std::vector<std::byte> payload_;
  std::size_t heard_ = 0;  ///< Bytes of greeting_ and payload_.
  bool ended_ = false;
};

}  // namespace heliograph
