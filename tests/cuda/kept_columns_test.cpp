#include "quant/kept_columns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

class KeptColumnsTwin : public TwinTest {};

TEST_F(KeptColumnsTwin, HaveTheBitsOfTheCpu) {
  for (const std::int64_t rows : {0, 1, 700}) {
    std::vector<std::int64_t> nodes(static_cast<std::size_t>(rows));
    std::iota(nodes.begin(), nodes.end(), 5000);
    const std::vector<std::int64_t> starts{0, rows / 3, rows};
    for (const int bits : {1, 2, 4, 8, 16, 32}) {
      for (const std::int64_t cols : {1, 47, 128, 129, 300}) {
        SCOPED_TRACE(::testing::Message() << rows << " rows, " << bits << " bits, " << cols);
        const RowFormat format{bits, bits == 4};
        const bool drops = cols != 128;
        const std::uint32_t threshold = drops ? 30000 : 0;
        KeptColumns host(nodes, starts, cols, format, drops, 3, cpu->device(), MemoryUse::halo,
                         nullptr);
        KeptColumns device(nodes, starts, cols, format, drops, 3, cuda->device(), MemoryUse::halo,
                           account.get());
        if (bits <= 4) {
          std::vector<std::uint8_t> fewer(nodes.size());
          for (std::size_t r = 0; r < fewer.size(); ++r) {
            fewer[r] = static_cast<std::uint8_t>(std::min(bits, 1 << r % 3));
          }
          host.set_bits(fewer);
          device.set_bits(fewer);
        }
        std::vector<std::byte> packed(static_cast<std::size_t>(rows) * format.row_bytes(cols) + 64);
        for (std::size_t i = 0; i < packed.size(); ++i) {
          packed[i] = static_cast<std::byte>(i * 37 + 11);
        }
        const DeviceArray<std::byte> device_packed = on_device(packed);
        for (const std::uint64_t stream : {3, 4}) {
          const auto epoch = static_cast<std::int64_t>(stream);
          host.draw(epoch, threshold, stream);
          device.draw(epoch, threshold, stream);
          cuda->device().finish();
          for (const std::int64_t start : starts)
            EXPECT_EQ(device.offset(epoch, start), host.offset(epoch, start));
          std::vector<std::byte> kept(host.offset(epoch, rows) + 64), back(packed.size());
          const DeviceArray<std::byte> device_kept = on_device(kept), device_back = on_device(back);
          for (const auto& [begin, end] :
               {std::pair{rows / 3, rows}, {std::int64_t{0}, rows / 3}}) {
            host.compress(epoch, begin, end, packed.data(), kept.data());
            device.compress(epoch, begin, end, device_packed.data(), device_kept.data());
          }
          EXPECT_EQ(device_kept.values(), kept);
          host.expand(epoch, kept.data(), back.data());
          device.expand(epoch, device_kept.data(), device_back.data());
          EXPECT_EQ(device_back.values(), back);
        }
      }
    }
  }
}

}  // namespace
}  // namespace heliograph
