#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace heliograph {

/// What a run is doing: how long a silence is borne depends on it.
enum class RunPhase : std::uint8_t { loading, training, saving };
inline constexpr int kRunPhases = 3;

/// "loading", "training" or "saving".
std::string_view phase_name(RunPhase phase) noexcept;

/// What the processes of a run tell each other beside the run's own messages.
struct WatchFrame {
  enum class Kind : std::uint8_t {
    alive,    ///< Sent every now and then: where the sender is.
    failed,   ///< The sender has failed: progress, code and reason are its own.
    lost,     ///< The sender has lost `rank`: progress, phase and reason are that rank's.
    heard,    ///< The sender ends because of what another rank told.
    bye,      ///< The sender needs nobody any more.
    ready,    ///< After a loss: the sender has reported it.
    leaving,  ///< The same, and it knows that all survivors have.
  };
  Kind kind = Kind::alive;
  RunPhase phase = RunPhase::loading;
  int rank = -1;  ///< Whom it is about.
  Progress progress;
  ErrorCode code = ErrorCode::peer_lost;
  std::string text;
};

/// Longer texts are cut.
inline constexpr std::size_t kWatchTextBytes = 2048;

/// The frame as it travels between machines of one kind.
std::vector<std::byte> encode_frame(const WatchFrame& frame);

/// Puts frames together from bytes as they come.
class WatchFrameReader {
 public:
  void append(const std::byte* data, std::size_t bytes) {
    bytes_.insert(bytes_.end(), data, data + bytes);
  }
  /// The next whole frame. Throws Error(peer_lost): no frame of ours.
  std::optional<WatchFrame> next();

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace heliograph
