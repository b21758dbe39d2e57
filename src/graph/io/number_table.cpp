#include "graph/io/number_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/io/parts.hpp"

namespace heliograph {

bool NumberRows::next(std::vector<double>& row) {
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (trim(line).empty());
  row.clear();
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = line.find(',');
    const std::string_view field = trim(line.substr(0, end));
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    const bool empty = field.empty() || field == "\"\"";
    const auto number =
        empty ? std::numeric_limits<double>::quiet_NaN() : parse_number<double>(field);
    if (!number) refuse("'{}' is not a number", field);
    row.push_back(*number);
  }
  if (cols_ == 0) cols_ = row.size();
  if (row.size() != cols_) refuse("{} fields, where the first line has {}", row.size(), cols_);
  return true;
}

std::int64_t NumberRows::plausible_rows(std::int64_t expected, std::size_t cols) const {
  constexpr std::int64_t kShortestField = 2;
  const std::int64_t most =
      lines_.most_bytes() / (kShortestField * static_cast<std::int64_t>(cols));
  return std::clamp<std::int64_t>(expected, 0, most);
}

template <class T>
NpyArray read_number_table(const std::filesystem::path& file, std::int64_t expected) {
  NumberRows numbers(file);
  std::vector<T> values;
  std::int64_t rows = 0;
  std::vector<double> row;
  for (; numbers.next(row); ++rows) {
    if (rows == 0) {
      values.reserve(static_cast<std::size_t>(numbers.plausible_rows(expected, row.size())) *
                     row.size());
    }
    for (const double value : row) {
      values.push_back(static_cast<T>(value));
      if (std::isinf(values.back()) && std::isfinite(value)) {
        numbers.refuse("{} is beyond fp32", value);
      }
    }
  }
  return as_array(file.string(), std::move(values), {rows, static_cast<std::int64_t>(row.size())});
}

template NpyArray read_number_table<float>(const std::filesystem::path&, std::int64_t);
template NpyArray read_number_table<double>(const std::filesystem::path&, std::int64_t);

}  // namespace heliograph
