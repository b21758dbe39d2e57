#include "quant/row_codec.hpp"

namespace heliograph {

std::int64_t encode_rows_simd(const EncodeJob& job, std::int64_t begin, std::int64_t end) {
  return encode_rows_reference(job, begin, end);
}

void decode_rows_simd(const PackedRows& packed, MatrixView out, std::int64_t begin,
                      std::int64_t end) {
  decode_rows_reference(packed, out, begin, end);
}

}  // namespace heliograph
