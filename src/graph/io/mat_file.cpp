#include "graph/io/mat_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/plural.hpp"
#include "graph/io/files.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kHeaderBytes = 128;
/// Flags, dimensions and name of any variable fit into this many bytes.
constexpr std::size_t kHeadBytes = std::size_t{1} << 16;
/// MATLAB's names are no longer; other names are cut, since deflate packs long ones into few bytes.
constexpr std::size_t kNameBytes = 63;

// Types of data elements.
constexpr std::uint32_t kMatrix = 14, kCompressed = 15;
/// NumPy's names of the numeric types.
constexpr const char* kDtypes[] = {"",    "<i1", "<u1", "<i2", "<u2", "<i4", "<u4",
                                   "<f4", "",    "<f8", "",    "",    "<i8", "<u8"};

// Classes of variables: those after sparse, up to the last number, are full matrices of numbers.
constexpr std::uint32_t kSparse = 5, kLastNumber = 15, kComplexFlag = 0x800;

std::uint32_t word_at(Bytes bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

struct Element {
  std::uint32_t type;
  Bytes data;
};

/// Takes data elements, one after another, from the bytes of a file or a variable.
class ElementReader {
 public:
  ElementReader(std::string where, Bytes bytes) : where_(std::move(where)), rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  Element next(const char* what) {
    if (rest_.size() < 8) refuse(where_, "is truncated: it has no {}", what);
    const std::uint32_t first = word_at(rest_, 0);
    // An element of up to 4 bytes may have them in its tag, and their number beside the type.
    const bool small = first >> 16U != 0;
    const std::uint32_t type = small ? first & 0xffffU : first;
    const std::size_t size = small ? first >> 16U : word_at(rest_, 4);
    const std::size_t room = small ? 4 : rest_.size() - 8;
    if (size > room) {
      refuse(where_, "is truncated: its {} has {} of {} bytes", what, room, size);
    }
    const Bytes data = rest_.subspan(small ? 4 : 8, size);
    const std::size_t padded = small ? 0 : type == kCompressed ? size : (size + 7) / 8 * 8;
    rest_ = rest_.subspan(std::min(rest_.size(), 8 + padded));
    return {type, data};
  }

 private:
  std::string where_;
  Bytes rest_;
};

/// Inflates a compressed element piece by piece.
class Inflater {
 public:
  Inflater(std::string where, Bytes packed) : where_(std::move(where)) {
    if (inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends `count` bytes to `out`.
  void append(std::size_t count, std::vector<std::byte>& out) {
    out.resize(out.size() + count);
    if (inflate_to(out.data() + out.size() - count, count) < count) {
      refuse(where_, "cannot be inflated: {}", reason());
    }
  }

  /// Goes to the end of the stream, where zlib compares the checksum.
  void end() {
    std::byte beyond{};
    if (inflate_to(&beyond, 1) > 0) refuse(where_, "is longer than it says");
    if (status_ != Z_STREAM_END) refuse(where_, "cannot be inflated: {}", reason());
  }

 private:
  std::size_t inflate_to(std::byte* to, std::size_t count) {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(count);
    status_ = inflate(&stream_, Z_NO_FLUSH);
    return count - stream_.avail_out;
  }
  const char* reason() const { return stream_.msg != nullptr ? stream_.msg : "it ends too early"; }

  std::string where_;
  z_stream stream_ = {};
  int status_ = Z_OK;
};

/// The bytes of a variable and their owner.
struct Body {
  Bytes bytes;
  std::shared_ptr<const void> storage;
};

/// The bytes of a variable, of which only `most` are inflated if it is compressed.
Body body_of(const Element& element, const std::string& where,
             const std::shared_ptr<const void>& mapped, std::size_t most) {
  if (element.type == kMatrix) return {element.data, mapped};
  if (element.type != kCompressed) {
    refuse(where, "its element of type {} is not a variable", element.type);
  }
  Inflater inflater(where, element.data);
  auto out = std::make_shared<std::vector<std::byte>>();
  inflater.append(8, *out);
  const std::size_t size = word_at(*out, 4);
  if (word_at(*out, 0) != kMatrix) refuse(where, "its compressed element is not a variable");
  // Deflate shrinks data at most 1032 times, so a larger claim is damage; it is refused before
  // memory is allocated.
  if (size / 1100 > element.data.size()) refuse(where, "its size, {}, is implausible", size);
  out->reserve(8 + std::min(size, most));
  inflater.append(std::min(size, most), *out);
  if (size <= most) inflater.end();
  return {Bytes(*out).subspan(8), out};
}

/// Numbers of a data element; without a shape, as many as it holds.
NpyArray numbers(const Element& element, std::string name, std::vector<std::int64_t> shape = {},
                 std::shared_ptr<const void> storage = nullptr) {
  const std::string dtype = element.type < std::size(kDtypes) ? kDtypes[element.type] : "";
  if (dtype.empty()) refuse(name, "holds elements of type {}, not numbers", element.type);
  const std::int64_t item = dtype[2] - '0';
  const auto bytes = static_cast<std::int64_t>(element.data.size());
  if (shape.empty()) shape = {bytes / item};
  NpyArray array{std::move(name),  dtype,        dtype[1],          item, true,
                 std::move(shape), element.data, std::move(storage)};
  if (array.elements() != bytes / item || bytes % item != 0) {
    refuse(array.name, "holds {} bytes, but its shape is {}", bytes, array.shape_text());
  }
  return array;
}

std::string name_of(const Body& body, const std::string& where) {
  ElementReader elements(where, body.bytes);
  elements.next("array flags");
  elements.next("dimensions");
  const Bytes letters = elements.next("name").data;
  return {reinterpret_cast<const char*>(letters.data()), letters.size()};
}

/// A matrix whose flags, dimensions and name were read.
struct Variable {
  std::string where;  ///< The file and the variable.
  std::uint32_t kind;
  std::vector<std::int64_t> shape;
  ElementReader rest;
  std::shared_ptr<const void> storage;
};

Variable variable_of(const Body& body, const std::string& where) {
  ElementReader elements(where, body.bytes);
  const Bytes flags = elements.next("array flags").data;
  if (flags.size() < 4) refuse(where, "its array flags are too short");
  const std::uint32_t word = word_at(flags, 0);
  if ((word & kComplexFlag) != 0) refuse(where, "holds complex numbers");
  const NpyArray extents = numbers(elements.next("dimensions"), where + ": dimensions");
  const std::vector<std::int64_t> shape = to_int64(extents);
  const auto is_extent = [](std::int64_t n) { return n >= 0 && std::in_range<std::int32_t>(n); };
  if (shape.size() != 2 || !std::ranges::all_of(shape, is_extent)) refuse(where, "is not a matrix");
  elements.next("name");
  return {where, word & 0xffU, shape, elements, body.storage};
}

void check_header(const fs::path& file, std::string_view text) {
  // Version 7.3 has the same first bytes as version 5, and HDF5 behind them.
  if (text.starts_with("\x89HDF") || text.starts_with("MATLAB 7.3")) {
    refuse(file, "is a MAT-file of version 7.3 (HDF5), which is not read; save it with -v7");
  }
  const std::string_view order = text.size() < kHeaderBytes ? "" : text.substr(126, 2);
  if (order == "MI") refuse(file, "is big endian; only little endian is supported");
  if (order != "IM" || text.substr(124, 2) != std::string_view("\0\1", 2)) {
    refuse(file, "is not a MATLAB 5 MAT-file");
  }
}

Variable find_variable(const fs::path& file, const std::string& name) {
  const auto mapped = MappedFile::open(file);
  check_header(file, mapped->text());
  ElementReader elements(file.string(), mapped->bytes().subspan(kHeaderBytes));
  std::vector<std::string> others;
  std::optional<Variable> variable;
  for (int number = 1; !elements.done(); ++number) {
    const std::string where = fmt::format("{}: variable number {}", file.string(), number);
    const Element element = elements.next("variable");
    const std::string found = name_of(body_of(element, where, mapped, kHeadBytes), where);
    if (found != name) {
      others.push_back(found.substr(0, kNameBytes));
      continue;
    }
    const std::string named = fmt::format("{}: variable {}", file.string(), name);
    if (variable) refuse(named, "occurs twice");
    const Body whole = body_of(element, named, mapped, std::numeric_limits<std::size_t>::max());
    variable.emplace(variable_of(whole, named));
  }
  if (!variable) {
    refuse(file, "has no variable {}; found: {}", name,
           others.empty() ? "nothing" : legible(listed(others, "and")));
  }
  return *std::move(variable);
}

}  // namespace

NpyArray read_mat_matrix(const fs::path& file, const std::string& variable) {
  Variable found = find_variable(file, variable);
  if (found.kind <= kSparse || found.kind > kLastNumber) {
    refuse(found.where, "is not a full matrix of numbers");
  }
  const Element values = found.rest.next("values");
  return numbers(values, found.where, found.shape, found.storage);
}

CsrMembers read_mat_sparse(const fs::path& file, const std::string& variable) {
  Variable found = find_variable(file, variable);
  if (found.kind != kSparse) refuse(found.where, "is not a sparse matrix");
  const NpyArray rows = numbers(found.rest.next("row indices"), found.where + ": row indices");
  const NpyArray starts =
      numbers(found.rest.next("column starts"), found.where + ": column starts");
  CsrMembers matrix;
  matrix.rows = found.shape[1];
  matrix.cols = found.shape[0];
  matrix.offsets = to_int64(starts);
  matrix.columns = to_int32(rows);
  // MATLAB may reserve more entries than there are.
  const std::int64_t entries = matrix.offsets.empty() ? 0 : matrix.offsets.back();
  if (entries >= 0 && entries < std::ssize(matrix.columns)) {
    matrix.columns.resize(static_cast<std::size_t>(entries));
  }
  check_csr(matrix, starts.name, rows.name, "column");
  return matrix;
}

}  // namespace heliograph
