#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heliograph {

/// The most bits of a row whose bits are chosen.
inline constexpr int kMostChosenBits = 4;

/// How many bytes the rows of an epoch may take if each row's bits are chosen.
struct BitBudget {
  /// Bits a value if every boundary row travelled with all its columns; 0: those of
  /// `--bits-forward` and `--bits-backward`.
  double mean_bits = 0;
  std::int64_t bytes = 0;  ///< If not 0, bytes that all ranks send in an epoch.
  std::string text;        ///< As it was given.
};

/// Parses ExchangeOptions::auto_bits; empty if it is. Throws Error(usage).
std::optional<BitBudget> parse_bit_budget(const std::string& text);

}  // namespace heliograph
