// The other end of a connection while ranks meet. The first byte says whether this process is rank
// 0, which is called, or rank 1, which calls. Messages follow: a byte with the kind in its lower 4
// bits, the number of bytes that change the header, the number of those that change the payload,
// and these bytes. A message is what a rank would send, changed by an exclusive or; with bit 4, its
// payload has as many bytes as change it.

#include "comm/rendezvous/rendezvous.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fuzz/support/attempt.hpp"

namespace {

using namespace heliograph;
using Kind = HandshakeHeader::Kind;

struct Over {};  ///< Thrown when the peer has sent all of its messages.

/// Plays the other rank, a step at a time.
class Peer {
 public:
  Peer(const LaunchVariables& launch, std::span<const std::uint8_t> script)
      : launch_(launch), rank_(1 - launch.rank), script_(script), mine_(introduce_process()) {}

  /// Listens at a port that the system chooses, if it is rank 0.
  void listen() { listener_ = listen_on(0, InternetAddress::loopback()); }
  std::uint16_t port() const { return port_of(listener_); }

  /// Takes what has arrived and sends the next message. Over loopback, the process has answered the
  /// last one in its turn.
  void step() {
    if (!connection_.socket().open()) connect();
    while (connection_.socket().open() && connection_.receive(std::size_t{1} << 16)) {
      note(connection_.header());
    }
    if (script_.size() >= 3 && connection_.socket().open()) return send_next();
    if (idle_++ > 1) throw Over();
  }

 private:
  void connect() {
    Socket socket =
        rank_ == 0 ? accept_call(listener_) : call(InternetAddress::loopback(), launch_.port);
    if (!socket.open()) return;
    // Without this, thousands of ended connections would hold ports.
    const linger at_once{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    connection_ = Connection(std::move(socket));
  }

  void note(const HandshakeHeader& header) {
    if (header.kind == Kind::call) {
      handshake_.call = header;
      connection_.copy_payload(handshake_.caller);
    }
    if (header.kind == Kind::challenge) connection_.copy_payload(handshake_.listener);
  }

  std::vector<std::byte> payload_of(Kind kind) const {
    const auto bytes = [](const auto& value) {
      const auto all = std::as_bytes(std::span(&value, 1));
      return std::vector<std::byte>(all.begin(), all.end());
    };
    using enum Handshake::Side;
    switch (kind) {
      case Kind::call:
        return bytes(handshake_.caller);
      case Kind::challenge:
        return bytes(handshake_.listener);
      case Kind::proof:
        return bytes(handshake_.proof_of(caller, launch_.key));
      case Kind::answer:
        return bytes(handshake_.proof_of(listener, launch_.key));
      case Kind::choose:
        return bytes(mine_);
      case Kind::table: {
        const std::array<Introduction, 2> both{mine_, mine_};
        return bytes(both);
      }
      default:
        return {};
    }
  }

  void send_next() {
    const auto kind = static_cast<Kind>(script_[0] & 0x0f);
    const bool resized = (script_[0] & 0x10) != 0;
    const std::size_t of_header = script_[1], of_payload = script_[2];
    script_ = script_.subspan(3);
    const auto take = [&](std::size_t count) {
      const auto taken = script_.first(std::min(count, script_.size()));
      script_ = script_.subspan(taken.size());
      return taken;
    };
    const auto change = [](std::span<const std::uint8_t> by, std::byte* bytes, std::size_t size) {
      for (std::size_t i = 0; i < std::min(by.size(), size); ++i) bytes[i] ^= std::byte{by[i]};
    };
    HandshakeHeader header;
    header.kind = kind;
    header.from = rank_;
    header.to = launch_.rank;
    header.ranks = 2;
    header.run = launch_.run_id();
    std::vector<std::byte> payload = payload_of(kind);
    const auto of_header_bytes = take(of_header), of_payload_bytes = take(of_payload);
    if (resized) payload.resize(of_payload_bytes.size());
    change(of_payload_bytes, payload.data(), payload.size());
    header.bytes = static_cast<std::uint32_t>(payload.size());
    change(of_header_bytes, reinterpret_cast<std::byte*>(&header), sizeof(header));
    if (kind == Kind::call) handshake_.call = header;
    // Connection::send would set the size.
    std::vector<std::byte> message(sizeof(header));
    std::memcpy(message.data(), &header, sizeof(header));
    message.insert(message.end(), payload.begin(), payload.end());
    [[maybe_unused]] const ssize_t sent = ::send(connection_.socket().get(), message.data(),
                                                 message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  const LaunchVariables& launch_;
  const int rank_;
  std::span<const std::uint8_t> script_;
  Introduction mine_;
  Socket listener_;
  Connection connection_;
  Handshake handshake_;
  int idle_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return -1;
  LaunchVariables launch;
  launch.rank = data[0] % 2;
  launch.ranks = 2;
  launch.address = "127.0.0.1";
  Peer peer(launch, std::span(data, size).subspan(1));
  if (launch.rank == 1) {
    peer.listen();
    launch.port = peer.port();
  } else {
    launch.port = port_of(listen_on(0, InternetAddress::loopback()));
  }
  fuzz::attempt([&] {
    try {
      Rendezvous meeting(launch);
      const std::vector<Introduction> all = meeting.introduce(0.02, [&] { peer.step(); });
      fuzz::require(all.size() == 2, "two ranks meet");
      for (const Introduction& one : all)
        fuzz::require(one.host_name().size() <= 64, "a short name");
    } catch (const Over&) {
    }
  });
  return 0;
}
