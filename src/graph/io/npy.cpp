#include "graph/io/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/parse_number.hpp"
#include "graph/io/files.hpp"
#include "graph/refuse.hpp"
#include "graph/utf8.hpp"

namespace heliograph {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian and mapped");

/// Reads a header's Python dictionary, whose values are strings, True or False, and a tuple of
/// integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, NpyArray& array) : text_(text), array_(array) {}

  void parse() {
    bool has_dtype = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        skip_blanks();
        if (position_ < text_.size() && text_[position_] == '[') {
          refuse(array_.name, "structured dtypes are not supported");
        }
        array_.dtype = quoted();
        has_dtype = true;
      } else if (key == "fortran_order") {
        array_.column_major = truth();
        has_order = true;
      } else if (key == "shape") {
        array_.shape = tuple();
        has_shape = true;
      } else {
        damaged();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!has_dtype || !has_order || !has_shape) damaged();
  }

 private:
  [[noreturn]] void damaged() { refuse(array_.name, "the .npy header is damaged"); }

  void skip_blanks() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) {
      ++position_;
    }
  }

  bool accept(char wanted) {
    skip_blanks();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) damaged();
  }

  std::string quoted() {
    skip_blanks();
    if (position_ >= text_.size()) damaged();
    const char quote = text_[position_];
    if (quote != '\'' && quote != '"') damaged();
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) damaged();
    std::string value(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return value;
  }

  bool truth() {
    skip_blanks();
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, std::pair{std::string_view("False"), false}}) {
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return value;
      }
    }
    damaged();
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      const std::size_t end =
          std::min(text_.find_first_not_of("0123456789", position_), text_.size());
      const auto value = parse_plain_number<std::int64_t>(text_.substr(position_, end - position_));
      if (!value) damaged();
      position_ = end;
      values.push_back(*value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  NpyArray& array_;
  std::size_t position_ = 0;
};

/// Sets the array's kind and item size from its dtype, such as "<f4".
void read_dtype(NpyArray& array) {
  const std::string& dtype = array.dtype;
  if (dtype.size() < 2) refuse(array.name, "unknown dtype '{}'", dtype);
  array.kind = dtype[1];
  if (array.kind == 'O') return;  // Pickled objects are never read.
  std::int64_t size = 0;
  std::size_t i = 2;
  for (; i < dtype.size() && dtype[i] >= '0' && dtype[i] <= '9' && size < (1 << 28); ++i) {
    size = size * 10 + (dtype[i] - '0');
  }
  if (i == 2) refuse(array.name, "unknown dtype '{}'", dtype);
  array.item_bytes = array.kind == 'U' ? 4 * size : size;
}

struct Half {
  std::uint16_t bits;
};

float widen(Half half) {
  const std::uint32_t sign = (half.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (half.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = half.bits & 0x3ffU;
  if (exponent == 0) {  // Zero or a subnormal number, mantissa x 2^-24.
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

/// The position of element i for messages: "entry 5" or "entry [2, 1]".
std::string entry_text(const NpyArray& array, std::int64_t i) {
  if (array.shape.size() != 2) return fmt::format("entry {}", i);
  return fmt::format("entry [{}, {}]", i / array.shape[1], i % array.shape[1]);
}

/// The value at a position in the data of an array of T; a Half as a float.
template <class T>
auto load_as(const NpyArray& array, std::int64_t at) {
  T value;
  std::memcpy(&value, array.data.data() + static_cast<std::size_t>(at) * sizeof(T), sizeof(T));
  if constexpr (std::is_same_v<T, Half>) {
    return widen(value);
  } else {
    return value;
  }
}

void require_two_axes(const NpyArray& array) {
  if (!array.column_major || array.shape.size() <= 2) return;
  refuse(array.name, "column-major arrays of more than 2 axes are not supported");
}

/// Calls `use(i, value)` for every element of an array of T, in row-major order.
template <class T, class Use>
void visit_as(const NpyArray& array, Use&& use) {
  require_two_axes(array);
  if (!array.column_major || array.shape.size() < 2) {
    const std::int64_t n = array.elements();
    for (std::int64_t i = 0; i < n; ++i) use(i, load_as<T>(array, i));
    return;
  }
  const std::int64_t rows = array.shape[0];
  const std::int64_t cols = array.shape[1];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) use(r * cols + c, load_as<T>(array, c * rows + r));
  }
}

/// NumPy's kind of the type T: 'f', 'i' or 'u'.
template <class T>
constexpr char kind_of() {
  if constexpr (std::is_same_v<T, Half> || std::is_floating_point_v<T>) return 'f';
  return std::is_signed_v<T> ? 'i' : 'u';
}

/// Calls `use(std::type_identity<T>())` for the one of these types that the array holds, or returns
/// false if it holds none of them.
template <class... Types, class Use>
bool with_any_type(const NpyArray& array, Use&& use) {
  const char kind = array.kind == 'b' && array.item_bytes == 1 ? 'u' : array.kind;
  const auto use_if = [&]<class T>(std::type_identity<T> type) {
    const bool held = kind == kind_of<T>() && array.item_bytes == sizeof(T);
    if (held) use(type);
    return held;
  };
  return (use_if(std::type_identity<Types>()) || ...);
}

/// Calls `use(std::type_identity<T>())` for the type T of the array's numbers, and refuses an array
/// without numbers.
template <class Use>
void with_type(const NpyArray& array, Use&& use) {
  if (array.kind == 'O') {
    refuse(array.name,
           "holds pickled objects, which are never interpreted: save it with a numeric dtype "
           "(numpy.unique(names, return_inverse=True) numbers names)");
  }
  if (array.kind == 'U' || array.kind == 'S') {
    refuse(array.name,
           "holds text (dtype '{}') instead of numbers: .astype('int64') converts node numbers, "
           ".astype('float32') features, numpy.unique(names, return_inverse=True) names of "
           "classes, and == 'True' flags",
           array.dtype);
  }
  if (array.dtype[0] == '>') {
    refuse(array.name, "dtype '{}' is big endian; only little endian is supported", array.dtype);
  }
  const bool held =
      with_any_type<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t,
                    std::int16_t, std::int32_t, std::int64_t, Half, float, double>(array, use);
  if (!held) refuse(array.name, "dtype '{}' is not a number of a supported type", array.dtype);
}

/// Room for as many values as an array of numbers has. Its data prove that there are so many, which
/// those of pickled objects do not.
template <class T>
std::vector<T> room_for(const NpyArray& array) {
  require_numbers(array);
  return std::vector<T>(static_cast<std::size_t>(array.elements()));
}

template <class Use>
void visit(const NpyArray& array, Use&& use) {
  with_type(array, [&]<class T>(std::type_identity<T>) { visit_as<T>(array, use); });
}

/// Whether `value` is a whole number that fits into `Out`.
template <class Out, class In>
bool fits(In value) {
  if constexpr (std::is_floating_point_v<In>) {
    // The bounds are powers of two, which every floating type represents exactly.
    const double wide = value;
    const double bound = std::ldexp(1.0, std::numeric_limits<Out>::digits);
    const double lowest = std::is_signed_v<Out> ? -bound : 0.0;
    return wide >= lowest && wide < bound && std::trunc(wide) == wide;
  } else {
    return std::in_range<Out>(value);
  }
}

/// The value as an integer, which must fit. `i` is its position in row-major order.
template <class Out, class In>
Out to_integer(const NpyArray& array, std::int64_t i, In value, const char* advice) {
  if (!fits<Out>(value)) {
    refuse(array.name, "{} is {}, which is not a {}-bit integer{}", entry_text(array, i), value,
           8 * sizeof(Out), advice);
  }
  return static_cast<Out>(value);
}

template <class Out>
std::vector<Out> to_integers(const NpyArray& array, const char* advice,
                             std::optional<Out> nan = {}) {
  auto out = room_for<Out>(array);
  visit(array, [&](std::int64_t i, auto value) {
    Out& integer = out[static_cast<std::size_t>(i)];
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      if (nan && std::isnan(value)) {
        integer = *nan;
        return;
      }
    }
    integer = to_integer<Out>(array, i, value, advice);
  });
  return out;
}

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string NpyArray::shape_text() const {
  return shape.size() == 1 ? fmt::format("({},)", shape[0])
                           : fmt::format("({})", fmt::join(shape, ", "));
}

NpyArray parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> storage,
                   std::string name) {
  NpyArray array;
  array.name = std::move(name);
  array.storage = std::move(storage);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kNpyMagic.size()) != kNpyMagic) refuse(array.name, "is not a .npy array");
  if (text.size() < 12) refuse(array.name, "the .npy header is truncated");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) {
    refuse(array.name, "has .npy version {}; versions 1 to 3 are supported", version);
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::size_t{static_cast<unsigned char>(text[8 + i])} << (8 * i);
  }
  const std::size_t data_begin = 8 + length_bytes + length;
  if (data_begin > text.size()) refuse(array.name, "the .npy header is truncated");
  HeaderParser(text.substr(8 + length_bytes, length), array).parse();
  read_dtype(array);
  array.data = bytes.subspan(data_begin);
  std::int64_t size = 1;
  for (const std::int64_t extent : array.shape) {
    if (__builtin_mul_overflow(size, extent, &size)) refuse(array.name, "the shape overflows");
  }
  if (array.kind == 'O') return array;
  // With values of no bytes, a short header could claim any number of them.
  if (array.item_bytes == 0 && size > 0) {
    refuse(array.name, "dtype '{}' has values of no bytes", array.dtype);
  }
  if (__builtin_mul_overflow(size, array.item_bytes, &size))
    refuse(array.name, "the shape overflows");
  if (static_cast<std::size_t>(size) != array.data.size()) {
    refuse(array.name, "is {}: {} bytes of data, but dtype '{}' and shape {} take {}",
           static_cast<std::size_t>(size) > array.data.size() ? "truncated" : "too long",
           array.data.size(), array.dtype, array.shape_text(), size);
  }
  return array;
}

NpyArray read_npy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_npy(file->bytes(), file, path.string());
}

void require_numbers(const NpyArray& array) {
  with_type(array, [](auto) {});
}

Array<float> to_float32(const NpyArray& array, bool keeps_nonzero) {
  const auto* const data = reinterpret_cast<const float*>(array.data.data());
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0;
  if (array.dtype == "<f4" && !array.column_major && aligned) {
    return {std::span(data, array.data.size() / sizeof(float)), array.storage};
  }
  auto out = room_for<float>(array);
  visit(array, [&](std::int64_t i, auto value) {
    const auto narrow = static_cast<float>(value);
    if constexpr (std::is_same_v<decltype(value), double>) {
      if (std::isinf(narrow) && std::isfinite(value)) {
        refuse(array.name, "{} is {}, which is beyond fp32", entry_text(array, i), value);
      }
      if (keeps_nonzero && narrow == 0 && value != 0) {
        refuse(array.name, "{} is {}, which is too small for fp32", entry_text(array, i), value);
      }
    }
    out[static_cast<std::size_t>(i)] = narrow;
  });
  return out;
}

std::vector<std::int64_t> to_int64(const NpyArray& array, const char* advice) {
  return to_integers<std::int64_t>(array, advice);
}

std::vector<std::int32_t> to_int32(const NpyArray& array, const char* advice,
                                   std::optional<std::int32_t> nan) {
  return to_integers<std::int32_t>(array, advice, nan);
}

IntegerView::IntegerView(NpyArray array) : array_(std::move(array)) {
  require_two_axes(array_);
  with_type(array_, [&]<class T>(std::type_identity<T>) {
    read_ = [](const NpyArray& from, std::int64_t i) {
      const bool by_column = from.column_major && from.shape.size() == 2;
      const std::int64_t at = by_column ? i % from.shape[1] * from.shape[0] + i / from.shape[1] : i;
      return to_integer<std::int64_t>(from, i, load_as<T>(from, at), "");
    };
  });
}

std::vector<std::uint8_t> to_flags(const NpyArray& array) {
  auto out = room_for<std::uint8_t>(array);
  visit(array, [&](std::int64_t i, auto value) {
    if (value != 0 && value != 1) {
      refuse(array.name, "{} is {}, which is neither 0 nor 1", entry_text(array, i), value);
    }
    out[static_cast<std::size_t>(i)] = value != 0 ? 1 : 0;
  });
  return out;
}

std::vector<std::string> to_strings(const NpyArray& array) {
  if (array.dtype.substr(0, 2) != "<U") {
    refuse(array.name, "dtype '{}' is not a little-endian unicode string", array.dtype);
  }
  const auto width = static_cast<std::size_t>(array.item_bytes / 4);
  std::vector<std::string> out(static_cast<std::size_t>(array.elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t c = 0; c < width; ++c) {
      std::uint32_t code = 0;
      std::memcpy(&code, array.data.data() + (i * width + c) * 4, 4);
      if (code == 0) break;  // Shorter strings are padded with zeros.
      if (!is_unicode_scalar(code)) refuse(array.name, "entry {} is not unicode", i);
      append_utf8(out[i], code);
    }
  }
  return out;
}

}  // namespace heliograph
