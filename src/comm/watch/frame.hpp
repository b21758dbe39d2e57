#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace heliograph {

/// What a rank is doing. The silence after which it counts as lost depends on this.
enum class RunPhase : std::uint8_t { loading, training, saving, scoring };
inline constexpr int kRunPhases = 4;

/// "loading", "training", "saving" or "scoring".
std::string_view phase_name(RunPhase phase) noexcept;

/// What the watches of a run tell each other.
struct WatchFrame {
  enum class Kind : std::uint8_t {
    alive,    ///< Sent every now and then: where the sender is.
    failed,   ///< The sender has failed: progress, code and reason are its own.
    lost,     ///< The sender has noticed the loss of `rank`, whose progress and phase these are.
    heard,    ///< The sender ends because of a failure that another rank has reported.
    bye,      ///< The sender no longer needs any other rank.
    ready,    ///< After a loss: the sender has reported it.
    leaving,  ///< After a loss: the sender knows that all survivors have reported it.
  };
  Kind kind = Kind::alive;
  RunPhase phase = RunPhase::loading;
  int rank = -1;  ///< The rank that the frame is about.
  Progress progress;
  ErrorCode code = ErrorCode::peer_lost;
  std::string text;
};

/// Longer texts are cut.
inline constexpr std::size_t kWatchTextBytes = 2048;

/// The frame as bytes, in the byte order of this machine.
std::vector<std::byte> encode_frame(const WatchFrame& frame);

/// Puts frames together from bytes as they arrive.
class WatchFrameReader {
 public:
  void append(const std::byte* data, std::size_t bytes) {
    bytes_.insert(bytes_.end(), data, data + bytes);
  }
  /// The next whole frame. Throws Error(peer_lost) where the bytes are no frame.
  std::optional<WatchFrame> next();

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace heliograph
