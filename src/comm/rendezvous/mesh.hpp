#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/rendezvous/socket.hpp"

namespace heliograph {

/// Where one process of a run can be reached, as plain bytes that processes exchange.
struct ProcessAddress {
  static constexpr std::size_t kHostBytes = 64;
  static constexpr std::size_t kInterfaces = 8;
  std::array<char, kHostBytes> host{};                   ///< Name of its host, ended by 0.
  std::uint64_t machine = 0;                             ///< Equal on processes of one kernel.
  std::uint64_t network = 0;                             ///< Equal where 127.0.0.1 is the same.
  std::uint64_t token = 0;                               ///< Rank 0's is the run's.
  std::array<InternetAddress, kInterfaces> addresses{};  ///< Other hosts try all that are known.
  std::uint16_t port = 0;                                ///< Host order.
  std::uint16_t unused[3] = {};

  std::string host_name() const;
};

/// Connects every process of a run with every other by TCP.
class ProcessMesh {
 public:
  /// Listens on a port that the system chooses. Throws Error(resource).
  ProcessMesh();

  const ProcessAddress& address() const { return address_; }

  /// Sockets by rank, the own one closed; non-blocking. Lower ranks are called, higher ones call.
  /// `check` is called now and then meanwhile, and may throw.
  /// Throws Error: peer_lost (names the first rank that was not reached within `seconds`),
  /// resource; what `check` throws.
  std::vector<Socket> connect(int rank, std::span<const ProcessAddress> all, double seconds,
                              const std::function<void()>& check = {});

 private:
  Socket listener_;
  ProcessAddress address_;
};

}  // namespace heliograph
