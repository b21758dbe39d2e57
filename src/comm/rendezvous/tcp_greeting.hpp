#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "comm/communicator.hpp"
#include "comm/rendezvous/introduction.hpp"
#include "comm/rendezvous/socket.hpp"

namespace heliograph {

/// What a process of a run that no MPI has started tells the others: over rank 0, whom all call.
struct TcpIntroduction {
  Introduction introduction;
  std::array<ProcessAddress, kChannels> channels;  ///< Where it is called for its messages.
};
static_assert(std::is_trivially_copyable_v<TcpIntroduction>);

/// What a rank says to rank 0 first, as plain bytes; its TcpIntroduction follows. Its first three
/// members stay as they are in every version.
struct TcpCall {
  static constexpr std::array<char, 8> kMagic{'H', 'L', 'G', 'R', 'A', 'P', 'H', '\n'};
  static constexpr std::uint32_t kVersion = 1;

  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t introduction_bytes = sizeof(TcpIntroduction);
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::uint64_t run = 0;    ///< LaunchVariables::run_id.
  std::uint64_t token = 0;  ///< The process's own.
};

/// What rank 0 answers; after `table` the introductions of all follow, by rank.
struct TcpAnswer {
  enum class Word : std::uint32_t {
    wait = 1,   ///< It is the rank's turn when all have called.
    elsewhere,  ///< Another run is met here.
    refused,    ///< `text` says why: for good.
    ended,      ///< `text` says why rank 0 gives up.
    table,
  };
  static constexpr std::size_t kTextBytes = 256;
  static constexpr std::array<char, 8> kMagic{'H', 'L', 'A', 'N', 'S', 'W', 'E', '\n'};

  std::array<char, 8> magic = kMagic;
  Word word = Word::wait;
  std::uint32_t unused = 0;
  std::array<char, kTextBytes> text{};  ///< Ended by 0.

  static TcpAnswer of(Word word, const std::string& text = {});
};

/// A wait for others that is bounded.
struct TcpWait {
  double deadline = 0;  ///< As monotonic_seconds() has it.
  /// Called now and then meanwhile; may throw, may be empty.
  const std::function<void()>& check;

  /// The same until `seconds` from now, or its own deadline if that is earlier.
  TcpWait at_most(double seconds) const;
  /// Until a socket is ready for `events` of poll(), or has ended. False: the deadline has passed.
  bool until(const Socket& socket, short events) const;
};

/// Whether all of it has gone, or come, in time.
enum class TcpMoved : std::uint8_t { all, ended, late };
TcpMoved send_all(const Socket& socket, const void* data, std::size_t bytes, const TcpWait& wait);
TcpMoved receive_all(const Socket& socket, void* data, std::size_t bytes, const TcpWait& wait);

/// Rank 0's answer that it ends, and why; it waits for nothing.
void tell_the_end(const Socket& socket, const std::string& text) noexcept;

/// Throws Error(peer_lost): the rank, on its host, has ended before all ranks had met.
[[noreturn]] void refuse_early_end(int rank, const TcpIntroduction& introduction);

/// "node1:29500", "[fd00::2]:29500".
std::string describe_endpoint(const std::string& host, std::uint16_t port);

}  // namespace heliograph
