#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/io/line_reader.hpp"

namespace heliograph {

/// The comma-separated fields of the line that `lines` has read last. Fields in double quotes may
/// hold commas and doubled quotes but no line ends. Throws Error(bad_input) that names the line if
/// a quote is not closed.
std::vector<std::string> split_record(const LineReader& lines, std::string_view line);

/// The position of `name` in a header, not before `from`. Throws Error(bad_input) that names the
/// line if there is no such column.
std::size_t column_of(const LineReader& lines, const std::vector<std::string>& header,
                      const std::string& name, std::size_t from = 0);

}  // namespace heliograph
