#include "comm/watch/frame.hpp"

#include <algorithm>
#include <cstring>

namespace heliograph {
namespace {

struct FrameHeader {
  std::uint32_t magic;
  std::uint8_t kind;
  std::uint8_t phase;
  std::uint16_t text_bytes;
  std::int32_t rank;
  std::int32_t epoch;
  std::int32_t layer;
  std::int32_t code;
};
static_assert(sizeof(FrameHeader) == 24);
constexpr std::uint32_t kFrameMagic = 0x31574c48;  // "HLW1"
constexpr int kMostCode = 255;                     // Codes are exit codes of failures.

}  // namespace

std::string_view phase_name(RunPhase phase) noexcept {
  static constexpr std::string_view kNames[kRunPhases] = {"loading", "training", "saving",
                                                          "scoring"};
  return kNames[static_cast<int>(phase)];
}

std::vector<std::byte> encode_frame(const WatchFrame& frame) {
  const std::size_t text_bytes = std::min(frame.text.size(), kWatchTextBytes);
  const FrameHeader header{kFrameMagic,
                           static_cast<std::uint8_t>(frame.kind),
                           static_cast<std::uint8_t>(frame.phase),
                           static_cast<std::uint16_t>(text_bytes),
                           frame.rank,
                           frame.progress.epoch,
                           frame.progress.layer,
                           static_cast<std::int32_t>(frame.code)};
  std::vector<std::byte> bytes(sizeof(header) + text_bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (text_bytes > 0) std::memcpy(bytes.data() + sizeof(header), frame.text.data(), text_bytes);
  return bytes;
}

std::optional<WatchFrame> WatchFrameReader::next() {
  FrameHeader header{};
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (header.magic != kFrameMagic ||
      header.kind > static_cast<std::uint8_t>(WatchFrame::Kind::leaving) ||
      header.phase >= kRunPhases || header.text_bytes > kWatchTextBytes || header.code < 1 ||
      header.code > kMostCode) {
    throw Error(ErrorCode::peer_lost, "the watch received bytes that are not a frame");
  }
  const std::size_t whole = sizeof(header) + header.text_bytes;
  if (bytes_.size() < whole) return std::nullopt;
  WatchFrame frame;
  frame.kind = static_cast<WatchFrame::Kind>(header.kind);
  frame.phase = static_cast<RunPhase>(header.phase);
  frame.rank = header.rank;
  frame.progress = {header.epoch, header.layer};
  frame.code = static_cast<ErrorCode>(header.code);
  frame.text.assign(reinterpret_cast<const char*>(bytes_.data()) + sizeof(header),
                    header.text_bytes);
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(whole));
  return frame;
}

}  // namespace heliograph
