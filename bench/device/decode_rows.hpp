#pragma once

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

namespace heliograph::cuda {

/// Decodes packed rows to fp32, as engines do that cannot aggregate packed rows. out: packed.rows x
/// packed.cols.
void decode_rows(Queue& queue, const PackedRows& packed, MatrixView out);

}  // namespace heliograph::cuda
