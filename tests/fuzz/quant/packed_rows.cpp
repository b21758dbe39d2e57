// The rows of a message, of any bytes and any format: fast code must decode what decode_value does,
// and aggregate within the message.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/csr.hpp"
#include "core/kernels.hpp"
#include "fuzz/support/attempt.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  constexpr std::size_t kHead = 5, kReadable = 64;
  if (size < kHead) return -1;
  RowFormat format;
  format.bits = 1 << data[0] % 6;
  format.has_minimum = data[1] % 2 != 0;
  format.exact_cols = data[2] % 4;
  format.groups = 1 + data[3] % 4;
  const std::int64_t cols = format.groups * (1 + data[4] % 100);
  const auto rows = static_cast<std::int64_t>((size - kHead) / format.row_bytes(cols));
  if (rows == 0 || rows > 64) return -1;
  std::vector<std::byte> message(static_cast<std::size_t>(rows) * format.row_bytes(cols) +
                                 kReadable);
  std::memcpy(message.data(), data + kHead, message.size() - kReadable);
  const PackedRows packed(message.data(), rows, cols, 0, format);
  static const auto kernels = make_cpu_kernels(1, false);
  fuzz::attempt([&] {
    const auto matrix = [](std::int64_t r, std::int64_t c) {
      return Matrix(r, c, MemoryUse::workspace, nullptr);
    };
    const Matrix values = matrix(rows, cols), exact = matrix(rows, format.exact_cols);
    kernels->decode_rows(packed, nullptr, values.view(), exact.view());
    const auto same = [](float a, float b) {
      return (std::isnan(a) && std::isnan(b)) ||
             std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        // Code 0 times a step that is no number, which no encoder sends, may be 0 or NaN.
        const float value = decode_value(packed.row(r), format, cols, c);
        fuzz::require(!std::isfinite(value) || same(values.view().row(r)[c], value),
                      "a finite value is what decode_value says");
      }
    }
    Csr all{{0}, {}};  // Each of 3 rows of the sum is of all rows of the message.
    for (int r = 0; r < 3; ++r) {
      for (std::int64_t c = 0; c < rows; ++c) all.columns.push_back(static_cast<std::int32_t>(c));
      all.offsets.push_back(static_cast<std::int64_t>(all.columns.size()));
    }
    const Matrix sum = matrix(3, cols);
    kernels->aggregate_halo(all.view(), packed, nullptr, sum.view(), {});
  });
  return 0;
}
