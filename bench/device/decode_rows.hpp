#pragma once

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

namespace heliograph::cuda {

/// out = the values of packed rows (packed.rows x packed.cols): what an engine does that cannot
/// aggregate packed rows. The engine itself never decodes.
void decode_rows(Queue& queue, const PackedRows& packed, MatrixView out);

}  // namespace heliograph::cuda
