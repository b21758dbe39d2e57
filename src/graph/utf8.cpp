#include "graph/utf8.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace heliograph {

bool is_utf8(std::string_view text) {
  // The least code of a sequence, by its number of bytes; shorter sequences hold smaller ones.
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  while (!text.empty()) {
    const auto lead = static_cast<std::uint8_t>(text[0]);
    const int ones = std::countl_one(lead);
    const std::size_t bytes = ones == 0 ? 1 : static_cast<std::size_t>(ones);
    if (ones == 1 || bytes > 4 || bytes > text.size()) return false;
    std::uint32_t code = ones == 0 ? lead : lead & (0x7fU >> ones);
    for (std::size_t i = 1; i < bytes; ++i) {
      const auto next = static_cast<std::uint8_t>(text[i]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3fU);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace heliograph
