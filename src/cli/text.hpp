#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heliograph::cli {

/// Three digits and a unit of a power of 1000: 1234567 is "1.23 MB".
std::string human_bytes(double bytes);

/// Three digits and a unit: 0.0123 is "12.3 ms".
std::string human_seconds(double seconds);

/// Hours, minutes and seconds: 3723 is "1:02:03", 62 is "1:02".
std::string human_clock(double seconds);

/// Four decimals; for NaN, words that say that the set of nodes is empty.
std::string score_text(double score);

/// 1234567 is "1,234,567".
std::string with_commas(std::int64_t value);

/// Lines of a padded label and its text, indented by two.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows);

/// Lines of cells in padded columns; the first column is aligned left, the others right.
std::string columns(const std::vector<std::vector<std::string>>& rows);

/// Breaks `text` at spaces into lines of at most `width` characters.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

/// Writes to standard error past the locks of stdio, which other threads may hold, as far as it
/// can. May be called by a signal's handler.
void write_past_locks(std::string_view text) noexcept;

}  // namespace heliograph::cli
