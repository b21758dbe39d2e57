#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/io/line_reader.hpp"
#include "graph/io/npy.hpp"

namespace heliograph {

/// Reads a table of numbers row by row. Commas outside quotes separate fields, a missing one
/// (is_missing) is NaN, True and False are 1 and 0, and empty lines are skipped. Throws
/// Error(bad_input) that names the file and the line.
class NumberRows {
 public:
  explicit NumberRows(const std::filesystem::path& file) : lines_(file) {}

  /// Reads the first line as the names of the columns, of which each later row has a field. Call
  /// it before `next`.
  std::vector<std::string> header();

  /// Sets `row` to the next row, which has as many numbers as the first one; false at the end.
  bool next(std::vector<double>& row);

  /// Sets `row` to the numbers of these columns. Other fields may hold anything.
  bool next(std::vector<double>& row, std::span<const std::size_t> columns);

  const LineReader& lines() const { return lines_; }

  /// `expected` rows or, if the file cannot hold as many rows of `cols` numbers, the most it can
  /// hold.
  std::int64_t plausible_rows(std::int64_t expected, std::size_t cols) const;

  /// Throws Error(bad_input) that names the file and the line that `next` has read last.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<const Args&...> sentence, const Args&... args) const {
    lines_.refuse(sentence, args...);
  }

 private:
  /// Sets `fields_` to those of the next row; false at the end.
  bool split();
  double number(std::size_t column) const;

  LineReader lines_;
  std::vector<std::string_view> fields_;
  std::size_t cols_ = 0;
};

/// Reads some columns of a table with a header, whose first column numbers the rows from 0, as
/// pandas writes it. Throws as NumberRows does, and if a column is missing.
class NamedColumns {
 public:
  NamedColumns(const std::filesystem::path& file, const std::vector<std::string>& names);

  /// Sets `row` to the numbers of the next row, in the order of the names; false at the end.
  bool next(std::vector<double>& row);

  /// The other columns, which may hold anything.
  const std::vector<std::string>& unused() const { return unused_; }

  /// As NumberRows::refuse.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<const Args&...> sentence, const Args&... args) const {
    rows_.refuse(sentence, args...);
  }

 private:
  NumberRows rows_;
  std::vector<std::size_t> at_{0};
  std::vector<std::string> unused_;
  std::vector<double> whole_;
  double number_ = 0;
};

/// Reads such a table as an array of float or double of shape (rows, columns). Memory is reserved
/// for `expected` rows.
template <class T>
NpyArray read_number_table(const std::filesystem::path& file, std::int64_t expected = 0);

}  // namespace heliograph
