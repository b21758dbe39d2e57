#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>

#include "core/throw_error.hpp"
#include "graph/edge_weights.hpp"
#include "graph/io/line_reader.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/text.hpp"

namespace heliograph {
namespace {

std::string lower(std::string_view word) {
  std::string out(word);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Reads the header, the size line and the entries of one MatrixMarket file.
class MarketReader {
 public:
  explicit MarketReader(const std::filesystem::path& file) : lines_(file) {
    std::string_view line;
    if (!lines_.next(line)) refuse("is empty");
    if (lower(take_word(line)) != "%%matrixmarket") refuse("does not start with %%MatrixMarket");
    if (lower(take_word(line)) != "matrix") refuse("is not a matrix");
    const std::string form = lower(take_word(line));
    const std::string field = lower(take_word(line));
    const std::string symmetry = lower(take_word(line));
    if (form != "coordinate" && form != "array") refuse("unknown form '{}'", form);
    if (field != "pattern" && field != "real" && field != "integer" && field != "double") {
      refuse("'{}' values are not supported; pattern, real and integer are", field);
    }
    if (symmetry != "general" && symmetry != "symmetric") {
      refuse("'{}' matrices are not supported; general and symmetric are", symmetry);
    }
    dense_ = form == "array";
    pattern_ = field == "pattern";
    symmetric_ = symmetry == "symmetric";
    if (dense_ && pattern_) refuse("an array cannot be a pattern");
    read_sizes();
  }

  bool dense() const { return dense_; }
  bool symmetric() const { return symmetric_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t entries() const { return entries_; }

  /// Throws Error(bad_input) that names the file and the line, as LineReader::refuse does.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<const Args&...> sentence, const Args&... args) const {
    lines_.refuse(sentence, args...);
  }

  /// Calls use(row, col, value) for every listed entry of a coordinate file; rows and columns are
  /// counted from 0.
  template <class Use>
  void for_each_entry(Use&& use) {
    std::string_view line;
    for (std::int64_t i = 0; i < entries_; ++i) {
      if (!next_content(line)) short_of(i);
      const std::int64_t row = index(take_word(line), rows_, "row");
      const std::int64_t col = index(take_word(line), cols_, "column");
      const double value = pattern_ ? 1.0 : number(take_word(line));
      end_of(line);
      use(row, col, value);
    }
    if (next_content(line)) refuse("more than the {} entries announced", entries_);
  }

  /// Calls use(value) for every value of an array file, column by column.
  template <class Use>
  void for_each_value(Use&& use) {
    std::string_view line;
    for (std::int64_t i = 0; i < entries_; ++i) {
      if (!next_content(line)) short_of(i);
      use(number(take_word(line)));
      end_of(line);
    }
    if (next_content(line)) refuse("more than the {} values announced", entries_);
  }

 private:
  bool next_content(std::string_view& line) {
    while (lines_.next(line)) {
      line = trim(line);
      if (!line.empty() && line.front() != '%') return true;
    }
    return false;
  }

  void read_sizes() {
    std::string_view line;
    if (!next_content(line)) refuse("the line of sizes is missing");
    rows_ = size(take_word(line));
    cols_ = size(take_word(line));
    if (dense_) {
      if (__builtin_mul_overflow(rows_, cols_, &entries_)) refuse("the matrix is too large");
    } else {
      entries_ = size(take_word(line));
    }
    end_of(line);
  }

  std::int64_t size(std::string_view word) const {
    const auto value = parse_number<std::int64_t>(word);
    if (!value || *value < 0) refuse("'{}' is not a size", word);
    return *value;
  }

  std::int64_t index(std::string_view word, std::int64_t extent, const char* axis) const {
    const auto value = parse_number<std::int64_t>(word);
    if (!value) refuse("'{}' is not a {} number", word, axis);
    if (*value < 1 || *value > extent) refuse("{} {} is not in [1, {}]", axis, *value, extent);
    return *value - 1;
  }

  double number(std::string_view word) const {
    const auto value = parse_number<double>(word);
    if (!value) refuse("'{}' is not a number", word);
    return *value;
  }

  void end_of(std::string_view line) const {
    if (!trim(line).empty()) refuse("'{}' is one field too many", trim(line));
  }

  [[noreturn]] void short_of(std::int64_t found) const {
    refuse("ends after {} of {} entries: the file is truncated", found, entries_);
  }

  LineReader lines_;
  bool dense_ = false;
  bool pattern_ = false;
  bool symmetric_ = false;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::int64_t entries_ = 0;
};

float narrow(const MarketReader& reader, double value) {
  const auto out = static_cast<float>(value);
  if (std::isinf(out) && std::isfinite(value)) reader.refuse("{} is beyond fp32", value);
  return out;
}

Features read_dense(MarketReader& reader, std::uintmax_t file_bytes) {
  // Every value takes at least a digit and a line end, so a larger claim is damage; it is refused
  // before memory is allocated.
  if (static_cast<std::uintmax_t>(reader.entries()) > file_bytes / 2 + 1) {
    reader.refuse("the file is too short for its sizes: it is truncated");
  }
  // Rows without columns take no bytes, so a short file could claim any number of nodes.
  if (reader.cols() == 0) reader.refuse("the matrix has no columns");
  std::vector<float> values(static_cast<std::size_t>(reader.entries()));
  std::int64_t i = 0;
  reader.for_each_value([&](double value) {
    const std::int64_t row = i % reader.rows();
    const std::int64_t col = i / reader.rows();
    values[static_cast<std::size_t>(row * reader.cols() + col)] = narrow(reader, value);
    ++i;
  });
  Features features;
  features.rows = reader.rows();
  features.cols = reader.cols();
  features.dense = std::move(values);
  return features;
}

}  // namespace

MarketEdges read_market_edges(const std::filesystem::path& file, const ImportOptions& options) {
  MarketReader reader(file);
  if (reader.dense()) reader.refuse("a graph is a coordinate matrix, not an array");
  if (reader.rows() != reader.cols()) {
    reader.refuse("a graph is a square matrix, not {} x {}", reader.rows(), reader.cols());
  }
  if (reader.rows() > std::numeric_limits<NodeId>::max()) {
    throw_error(ErrorCode::resource, "{}: {} nodes: a graph must have fewer than 2^31 nodes",
                file.string(), reader.rows());
  }
  MarketEdges out;
  out.nodes = reader.rows();
  out.symmetric = reader.symmetric();
  reader.for_each_entry([&](std::int64_t row, std::int64_t col, double value) {
    if (options.ignore_weights) value = 1;
    if (!is_edge_weight(value)) {
      reader.refuse("the weight {} is neither 0 nor a normal fp32 number", value);
    }
    out.list.add(static_cast<NodeId>(row), static_cast<NodeId>(col), static_cast<float>(value));
  });
  return out;
}

Features read_market_features(const std::filesystem::path& file) {
  MarketReader reader(file);
  if (reader.symmetric()) reader.refuse("features are a general matrix, not a symmetric one");
  if (reader.rows() > std::numeric_limits<NodeId>::max() ||
      reader.cols() > std::numeric_limits<std::int32_t>::max()) {
    throw_error(ErrorCode::resource, "{}: {} x {} features are too many", file.string(),
                reader.rows(), reader.cols());
  }
  if (reader.dense()) return read_dense(reader, std::filesystem::file_size(file));

  struct Entry {
    std::int32_t row, col;
    float value;
  };
  std::vector<Entry> entries;
  check_claimed_nodes(file, reader.rows());
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(reader.rows()) + 1, 0);
  reader.for_each_entry([&](std::int64_t row, std::int64_t col, double value) {
    entries.push_back(
        {static_cast<std::int32_t>(row), static_cast<std::int32_t>(col), narrow(reader, value)});
    ++offsets[static_cast<std::size_t>(row) + 1];
  });
  for (std::size_t r = 1; r < offsets.size(); ++r) offsets[r] += offsets[r - 1];
  std::vector<std::int32_t> columns(entries.size());
  std::vector<float> values(entries.size());
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  for (const Entry& entry : entries) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(entry.row)]++);
    columns[at] = entry.col;
    values[at] = entry.value;
  }
  return sparse_features(reader.cols(), std::move(offsets), std::move(columns), std::move(values),
                         file.string());
}

}  // namespace heliograph
