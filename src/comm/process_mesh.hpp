#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heliograph {

/// Where one process of a run can be reached, as plain bytes that processes exchange.
struct ProcessAddress {
  static constexpr std::size_t kHostBytes = 64;
  static constexpr std::size_t kInterfaces = 8;
  std::array<char, kHostBytes> host{};                 ///< Name of its host, ended by 0.
  std::uint64_t machine = 0;                           ///< Equal on processes of one kernel.
  std::uint64_t network = 0;                           ///< Equal where 127.0.0.1 is the same.
  std::uint64_t token = 0;                             ///< Rank 0's is the run's.
  std::array<std::uint32_t, kInterfaces> addresses{};  ///< IPv4 in network order; 0: no more.
  std::uint16_t port = 0;                              ///< Host order.
  std::uint16_t unused[3] = {};

  std::string host_name() const;
};

/// Throws Error(resource): "the connections between ranks: cannot WHAT" and why, as errno says.
[[noreturn]] void refuse_connections(const char* what);

/// A file descriptor that is closed with its owner.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void close() noexcept;

 private:
  int descriptor_;
};

/// Connects every process of a run with every other by TCP.
class ProcessMesh {
 public:
  /// Listens on a port that the system chooses. Throws Error(resource).
  ProcessMesh();

  const ProcessAddress& address() const { return address_; }

  /// Sockets by rank, the own one closed; non-blocking. Lower ranks are called, higher ones call.
  /// Throws Error: peer_lost (names the first rank that was not reached within `seconds`),
  /// resource.
  std::vector<Socket> connect(int rank, std::span<const ProcessAddress> all, double seconds);

 private:
  Socket listener_;
  ProcessAddress address_;
};

}  // namespace heliograph
