#include "graph/io/number_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "graph/io/csv.hpp"
#include "graph/io/parts.hpp"

namespace heliograph {

namespace {

std::optional<double> number_of(std::string_view field) {
  if (const auto number = parse_number<double>(field)) return number;
  if (field == "True" || field == "False") return field == "True" ? 1 : 0;
  if (is_missing(field) || field == "\"\"") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

}  // namespace

std::vector<std::string> NumberRows::header() {
  std::string_view line;
  if (!lines_.next(line)) refuse("there is no header");
  std::vector<std::string> names = split_record(lines_, line);
  cols_ = names.size();
  return names;
}

bool NumberRows::split() {
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (trim(line).empty());
  fields_.clear();
  for (std::size_t end = 0; end != std::string_view::npos;) {
    std::size_t quoted = 0;
    while (quoted < line.size() && line[quoted] == '"') {
      quoted = line.find('"', quoted + 1);
      if (quoted == std::string_view::npos) refuse("a quote is not closed");
      ++quoted;
    }
    end = line.find(',', quoted);
    fields_.push_back(trim(line.substr(0, end)));
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  }
  if (cols_ == 0) cols_ = fields_.size();
  if (fields_.size() != cols_) {
    refuse("{} fields, where the first line has {}", fields_.size(), cols_);
  }
  return true;
}

double NumberRows::number(std::size_t column) const {
  const auto number = number_of(fields_[column]);
  if (!number) refuse("'{}' is not a number", fields_[column]);
  return *number;
}

bool NumberRows::next(std::vector<double>& row) {
  if (!split()) return false;
  row.resize(cols_);
  for (std::size_t i = 0; i < cols_; ++i) row[i] = number(i);
  return true;
}

bool NumberRows::next(std::vector<double>& row, std::span<const std::size_t> columns) {
  if (!split()) return false;
  row.resize(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) row[i] = number(columns[i]);
  return true;
}

NamedColumns::NamedColumns(const std::filesystem::path& file, const std::vector<std::string>& names)
    : rows_(file) {
  const std::vector<std::string> header = rows_.header();
  std::set<std::size_t> used = {0};
  for (const std::string& name : names) {
    at_.push_back(column_of(rows_.lines(), header, name, 1));
    if (!used.insert(at_.back()).second) rows_.refuse("the column {} is needed twice", name);
  }
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (!used.contains(i)) unused_.push_back(header[i]);
  }
}

bool NamedColumns::next(std::vector<double>& row) {
  if (!rows_.next(whole_, at_)) return false;
  if (whole_[0] != number_) {
    rows_.refuse("the first column is {}, not {}: it numbers the nodes, in their order", whole_[0],
                 number_);
  }
  ++number_;
  row.assign(whole_.begin() + 1, whole_.end());
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
