#pragma once

#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

/// Decodes packed rows to fp32 in SIMD code, as engines do that cannot aggregate packed rows; this
/// engine never decodes. out: packed.rows x packed.cols.
void decode_rows(const PackedRows& packed, MatrixView out, ThreadPool& threads);

}  // namespace heliograph
