#pragma once

#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

/// out = the values of packed rows (packed.rows x packed.cols), by vectors: what an engine does
/// that cannot aggregate packed rows. The engine itself never decodes.
void decode_rows(const PackedRows& packed, MatrixView out, ThreadPool& threads);

}  // namespace heliograph
