#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda/device_arrays.hpp"
#include "emulation.hpp"
#include "quant/codec_rows.hpp"

// Tests of the codec and of aggregation that need the emulated device.

namespace heliograph {
namespace {

constexpr std::int64_t kRows = 33;
constexpr std::int64_t kCols = 300;

class PackedRowsEmulated : public TwinTest {
 protected:
  ~PackedRowsEmulated() override { set_order(cuda_emulation::GridOrder::alternating); }
};

TEST_F(PackedRowsEmulated, NothingDependsOnTheOrderOfBlocksAndLanes) {
  CodecCase c(kRows, kCols);
  fill(c.x, row_kinds()[1], 3);
  const auto x = on_device(c.x);
  const auto rows = on_device(c.rows);
  const auto ids = on_device(c.ids);
  // The last row is one that a whole block sums.
  const auto offsets = on_device(std::vector<std::int64_t>{0, 33, 33, 50, 50 + 20 * 33});
  std::vector<std::int32_t> entries;
  for (int i = 0; i < 25; ++i) entries.insert(entries.end(), c.rows.rbegin(), c.rows.rend());
  const auto columns = on_device(entries);
  const CsrView csr{4, offsets.data(), columns.data(), nullptr};
  for (const RowFormat format : all_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cuda_codec(format, cuda->device());
    std::vector<std::byte> bytes[2];
    Matrix sums[2];
    for (const bool backwards : {false, true}) {
      using cuda_emulation::GridOrder;
      set_order(backwards ? GridOrder::backwards : GridOrder::forwards);
      const auto out = on_device(std::vector<std::byte>(codec->encoded_bytes(kRows, kCols) + 64));
      ASSERT_EQ(codec
                    ->encode(x.view(), {{rows.data(), rows.size()}, nullptr, ids.data()}, 5,
                             out.data(), cuda->device().threads())
                    .row,
                -1);
      const DeviceMatrix sum = device_matrix(4, kCols);
      cuda->aggregate_inner(csr, x.view(), nullptr, 0, nullptr, sum.view(), {});
      cuda->aggregate_halo(csr, {out.data(), kRows, kCols, 0, format}, nullptr, sum.view(), {});
      bytes[backwards ? 1 : 0] = out.values();
      sums[backwards ? 1 : 0] = sum.values();
    }
    ASSERT_EQ(bytes[0], bytes[1]);
    ASSERT_EQ(0, std::memcmp(sums[0].view().data, sums[1].view().data,
                             static_cast<std::size_t>(4 * sums[0].view().stride) * 4));
  }
}

TEST_F(PackedRowsEmulated, AMessageIsWholeWhenEncodeReturnsAndNothingIsAllocatedForIt) {
  CodecCase c(kRows, kCols);
  fill(c.x, row_kinds()[1], 3);
  const auto x = on_device(c.x);
  const auto rows = on_device(c.rows);
  const auto ids = on_device(c.ids);
  const auto codec = make_cuda_codec({2, true}, cuda->device());
  const auto out = on_device(std::vector<std::byte>(codec->encoded_bytes(kRows, kCols) + 64));
  const DeviceMatrix sum = device_matrix(kRows, kCols);
  const std::int64_t allocations = cuda_emulation::calls("cudaMallocAsync");
  for (const std::size_t count : {rows.size(), std::size_t{0}}) {
    cuda->add(sum.view(), x.view());
    ASSERT_GT(cuda_emulation::waiting(), 0);
    codec->encode(x.view(), {{rows.data(), count}, nullptr, ids.data()}, 5, out.data(),
                  cuda->device().threads());
    EXPECT_EQ(cuda_emulation::waiting(), 0) << count << " rows";
  }
  EXPECT_EQ(cuda_emulation::calls("cudaMallocAsync"), allocations);
}

}  // namespace
}  // namespace heliograph
