#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heliograph::cli {

/// 1234567 -> "1.23 MB": three digits, powers of 1000.
std::string human_bytes(double bytes);

/// 0.0123 -> "12.3 ms".
std::string human_seconds(double seconds);

/// 3723 -> "1:02:03", 62 -> "1:02".
std::string human_clock(double seconds);

/// 0.7406 -> "0.7406"; NaN stands for a share of the split without nodes.
std::string score_text(double score);

/// 1234567 -> "1,234,567".
std::string with_commas(std::int64_t value);

/// Two columns, labels padded, each line indented by two.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows);

/// Columns padded to their widest cell; the first aligned left, the others right.
std::string columns(const std::vector<std::vector<std::string>>& rows);

/// Breaks `text` at spaces into lines of at most `width` characters.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

}  // namespace heliograph::cli
