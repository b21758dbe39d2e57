// What the rank watch receives. Frames must not depend on how the bytes arrive, and must be the
// same once they have been sent on.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/watch/frame.hpp"
#include "fuzz/support/attempt.hpp"

namespace {

using heliograph::WatchFrame;
using heliograph::WatchFrameReader;

/// The frames of bytes that arrive `piece` at a time, as bytes.
std::vector<std::vector<std::byte>> frames_of(const std::byte* data, std::size_t size,
                                              std::size_t piece) {
  WatchFrameReader reader;
  std::vector<std::vector<std::byte>> frames;
  for (std::size_t done = 0; done < size; done += piece) {
    reader.append(data + done, std::min(piece, size - done));
    while (const auto frame = reader.next()) frames.push_back(encode_frame(*frame));
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  fuzz::attempt([&] {
    const auto frames = frames_of(bytes, size, 1000);
    fuzz::require(frames == frames_of(bytes, size, 1 + size % 40),
                  "frames do not depend on how their bytes arrive");
    std::vector<std::byte> sent;
    for (const auto& frame : frames) sent.insert(sent.end(), frame.begin(), frame.end());
    fuzz::require(frames == frames_of(sent.data(), sent.size(), 1000),
                  "frames are the same once they have been sent on");
  });
  return 0;
}
