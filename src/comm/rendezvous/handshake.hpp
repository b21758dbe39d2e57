#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/rendezvous/run_key.hpp"
#include "comm/rendezvous/socket.hpp"

namespace heliograph {

/// The header of every message that processes exchange while they connect, sent as plain bytes and
/// followed by `bytes` bytes of payload. Of two ranks, the higher one opens connections. On each,
/// both prove that they know the run's key (`call`, `challenge`, `proof`, `answer`), and the higher
/// one keeps one of the connections (`choose`). The layout is the same in every protocol version,
/// so that a process of another version can be refused with a message that names its version; the
/// contents of payloads depend on the version.
struct HandshakeHeader {
  enum class Kind : std::uint32_t {
    call = 1,   ///< Payload: a random number of the caller.
    answer,     ///< Payload: the listener's proof.
    choose,     ///< Payload, when ranks introduce themselves to rank 0: an Introduction.
    table,      ///< Rank 0 to all. Payload: the Introductions of all ranks.
    connected,  ///< To rank 0: this rank has all its connections; from rank 0: every rank has.
    wrong_run,  ///< The caller belongs to another run.
    refused,    ///< The caller is refused and must not retry. Payload: the reason.
    ended,      ///< A rank gives up, and tells rank 0, which tells all. Payload: the reason.
    challenge,  ///< Payload: a random number of the listener.
    proof,      ///< Payload: the caller's proof.
    stopped,    ///< As `ended`, of a rank that was asked to stop.
  };
  static constexpr std::array<char, 8> kMagic{'H', 'L', 'G', 'R', 'A', 'P', 'H', '\n'};
  static constexpr std::uint32_t kVersion = 4;

  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  Kind kind = Kind::call;
  std::int32_t from = -1;
  std::int32_t ranks = 0;
  std::uint64_t run = 0;
  std::int32_t to = -1;
  std::int32_t link = 0;  ///< The number of the connection among those between the two ranks.
  std::uint32_t bytes = 0;
  std::uint32_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<HandshakeHeader> && sizeof(HandshakeHeader) == 48);

/// What the two ends of one connection prove that they know the key for. As every connection has
/// new random numbers, a proof is worth nothing on another one.
struct Handshake {
  enum class Side : std::uint64_t { caller = 1, listener = 2 };

  HandshakeHeader call;  ///< As it was sent: who calls whom, for which link of which run.
  ProofBytes caller{};   ///< The random numbers of both ends.
  ProofBytes listener{};

  ProofBytes proof_of(Side side, const RunKey& key) const;
  /// Whether `proof` is that of `side`.
  bool proves(std::span<const std::byte> proof, Side side, const RunKey& key) const;
};

/// The bytes of a text, for a payload: the first kMostTextBytes of them if it has more.
std::span<const std::byte> payload_of(const std::string& text);
inline constexpr std::size_t kMostTextBytes = 1000;

/// A non-blocking socket that sends and receives messages: headers with their payloads. It reads no
/// byte past the message that it receives, so the socket can carry other data afterwards.
class Connection {
 public:
  explicit Connection(Socket socket = Socket()) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  Socket release() { return std::move(socket_); }

  /// Sends as much as the socket accepts now and keeps the rest for `flush`. Sets header.bytes.
  /// Both functions return false if the connection is broken.
  bool send(HandshakeHeader header, std::span<const std::byte> payload = {});
  bool flush();
  /// Returns true once a whole message has been received. A payload larger than `most_bytes` ends
  /// the connection.
  bool receive(std::size_t most_bytes);
  /// The header of the last message that was received. If its `magic` is not kMagic, the message
  /// has no payload.
  const HandshakeHeader& header() const { return header_; }
  std::span<const std::byte> payload() const { return payload_; }
  std::string text() const;
  /// Copies the payload. Returns false if it has another size than `bytes`.
  bool copy_payload(ProofBytes& bytes) const;

  /// Whether `receive` has found that the connection is closed or broken.
  bool ended() const { return ended_; }
  /// The events of the socket for which poll() should wait.
  pollfd entry() const;

 private:
  Socket socket_;
  std::vector<std::byte> unsent_;
  HandshakeHeader header_;
  std::vector<std::byte> payload_;
  std::size_t received_ = 0;  ///< Bytes of the current message so far, with its header.
  bool ended_ = false;
};

}  // namespace heliograph
