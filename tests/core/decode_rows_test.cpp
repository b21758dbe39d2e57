#include <gtest/gtest.h>

#include <vector>

#include "core/aggregate_inputs.hpp"
#include "core/kernels.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

TEST(DecodeRows, GivesEveryValueOnEveryTarget) {
  for_each_simd_target([] {
    for (const int bits : {1, 2, 4, 8, 16, 32}) {
      for (const int groups : {1, 3}) {
        const std::int64_t cols = groups * 37, begin = 5;
        test::Packed packed(6, cols, {bits, bits != 4, 2, groups});
        packed.rows.col_begin = begin;
        const std::vector<std::int32_t> nodes{7, 0, -1, 3, 4, 1};
        for (const bool scatters : {false, true}) {
          const Matrix untouched = test::random_matrix(8, begin + cols, 9);
          const Matrix values = test::random_matrix(8, begin + cols, 9),
                       exact = test::random_matrix(8, 2, 9);
          make_cpu_kernels(2, false)->decode_rows(packed.rows, scatters ? nodes.data() : nullptr,
                                                  values.view(), exact.view());
          for (std::int64_t r = 0; r < 6; ++r) {
            const std::int64_t to = scatters ? nodes[static_cast<std::size_t>(r)] : r;
            for (std::int64_t c = 0; to >= 0 && c < cols; ++c) {
              ASSERT_EQ(values.view().row(to)[begin + c],
                        decode_value(packed.rows.row(r), packed.rows.format, cols, c))
                  << bits << " bits, column " << c;
            }
            if (to < 0) continue;
            EXPECT_EQ(exact.view().row(to)[1], packed.rows.exact(r, 1));
          }
          for (std::int64_t c = 0; c < begin; ++c) {
            EXPECT_EQ(values.view().row(1)[c], untouched.view().row(1)[c]);
          }
          EXPECT_EQ(values.view().row(6)[begin], untouched.view().row(6)[begin]);
        }
      }
    }
  });
}

}  // namespace
}  // namespace heliograph
