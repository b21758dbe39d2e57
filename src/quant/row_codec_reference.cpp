#include <cmath>
#include <cstring>

#include "quant/row_codec.hpp"
#include "quant/row_math.hpp"

namespace heliograph {
namespace {

void put_code(std::byte* codes, int bits, std::int64_t cols, std::int64_t c, std::uint32_t code) {
  const auto bit = static_cast<std::size_t>(code_bit(bits, cols, c));
  codes[bit / 8] |= static_cast<std::byte>(code << (bit % 8));
}

struct Range {
  float lo;
  float hi;
  std::int64_t bad_column;  // first NaN or Inf; -1 for none
};

Range range_of(const float* x, float scale, std::int64_t cols) {
  Range range{0, 0, -1};
  for (std::int64_t c = 0; c < cols; ++c) {
    const float value = scale * x[c];
    if (!std::isfinite(value)) return {0, 0, c};
    range.lo = c == 0 ? value : std::min(range.lo, value);
    range.hi = c == 0 ? value : std::max(range.hi, value);
  }
  return range;
}

/// Encodes one group of a row, with codes of `bits` bits in the layout of `format`, of one group.
bool encode_group(const float* x, float scale, std::int64_t cols, std::uint64_t key,
                  RowFormat format, int bits, std::byte* out) {
  const Range range = range_of(x, scale, cols);
  if (range.bad_column >= 0) return false;
  if (format.bits >= 16) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const float value = scale * x[c];
      if (format.bits == 16) {
        const std::uint16_t half =
            stochastic_bf16(value, noise16(key, static_cast<std::uint32_t>(c)));
        std::memcpy(out + 2 * c, &half, 2);
      } else {
        std::memcpy(out + 4 * c, &value, 4);
      }
    }
    return true;
  }
  CodeParameters parameters;
  RowFormat levels = format;
  levels.bits = bits;
  if (!choose_parameters(range.lo, range.hi, levels, parameters)) return false;
  std::memset(out, 0, format.group_bytes(cols));
  std::byte* step = out;
  if (format.has_minimum) {
    std::memcpy(out, &parameters.minimum_bits, 2);
    step += 2;
  }
  std::memcpy(step, &parameters.step_bits, 2);
  std::byte* codes = out + format.parameter_bytes();
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::uint32_t noise = noise16(key, static_cast<std::uint32_t>(c));
    put_code(codes, format.bits, cols, c,
             stochastic_code(scale * x[c], parameters, format.bits, noise));
  }
  return true;
}

}  // namespace

std::int64_t encode_rows_reference(const EncodeJob& job, std::int64_t begin, std::int64_t end) {
  const int groups = job.format.coded_groups();
  const std::int64_t cols = job.x.cols / groups;
  RowFormat one = job.format;
  one.groups = 1;
  for (std::int64_t i = begin; i < end; ++i) {
    const float* x = job.x.row(job.source_row(i));
    std::byte* out = job.out_row(i);
    for (int g = 0; g < groups; ++g, x += cols, out += one.group_bytes(cols)) {
      if (!encode_group(x, job.scale(i), cols, group_key(job.key(i), g), one, job.levels(i).bits,
                        out)) {
        return i;
      }
    }
  }
  return end;
}

std::int64_t copy_exact_columns(const EncodeJob& job, std::int64_t begin, std::int64_t end) {
  const int cols = job.format.exact_cols;
  if (cols == 0) return end;
  for (std::int64_t i = begin; i < end; ++i) {
    const float* from = job.selection.exact.row(job.source_row(i));
    if (range_of(from, 1.0F, cols).bad_column >= 0) return i;
    std::memcpy(job.out_row(i) + job.format.exact_begin(job.x.cols), from,
                static_cast<std::size_t>(cols) * 4);
  }
  return end;
}

UnencodableRow describe_unencodable(const EncodeJob& job, std::int64_t index) {
  const float* x = job.x.row(job.source_row(index));
  const float scale = job.scale(index);
  const Range range = range_of(x, scale, job.x.cols);
  if (range.bad_column >= 0) {
    return {job.source_row(index), range.bad_column, scale * x[range.bad_column]};
  }
  if (job.format.exact_cols > 0) {
    const float* exact = job.selection.exact.row(job.source_row(index));
    const std::int64_t c = range_of(exact, 1.0F, job.format.exact_cols).bad_column;
    if (c >= 0) return {job.source_row(index), job.x.cols + c, exact[c]};
  }
  const std::int64_t cols = job.x.cols / job.format.groups;
  for (int g = 0;; ++g) {
    const Range group = range_of(x + g * cols, scale, cols);
    CodeParameters parameters;
    if (choose_parameters(group.lo, group.hi, job.levels(index), parameters)) continue;
    const float value = !job.format.has_minimum && group.lo < 0 ? group.lo : group.hi - group.lo;
    return {job.source_row(index), -1, value};
  }
}

}  // namespace heliograph
