#include "graph/utf8.hpp"

#include <bit>
#include <cstddef>

namespace heliograph {

std::optional<std::u32string> decode_utf8(std::string_view text) {
  // The least code of a sequence, by its number of bytes; shorter sequences hold smaller ones.
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  std::u32string codes;
  while (!text.empty()) {
    const auto lead = static_cast<std::uint8_t>(text[0]);
    const int ones = std::countl_one(lead);
    const std::size_t bytes = ones == 0 ? 1 : static_cast<std::size_t>(ones);
    if (ones == 1 || bytes > 4 || bytes > text.size()) return std::nullopt;
    std::uint32_t code = ones == 0 ? lead : lead & (0x7fU >> ones);
    for (std::size_t i = 1; i < bytes; ++i) {
      const auto next = static_cast<std::uint8_t>(text[i]);
      if (next >> 6 != 2) return std::nullopt;
      code = code << 6 | (next & 0x3fU);
    }
    if (code < kLeast[bytes] || !is_unicode_scalar(code)) return std::nullopt;
    codes += static_cast<char32_t>(code);
    text.remove_prefix(bytes);
  }
  return codes;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[extra] | (code >> (6 * extra)));
  for (int shift = 6 * (extra - 1); shift >= 0; shift -= 6) {
    out += static_cast<char>(0x80U | ((code >> shift) & 0x3fU));
  }
}

}  // namespace heliograph
