#pragma once

#include <cstdint>

#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// The values of Kernels::decode_rows, those of decode_value().
void decode_rows(const PackedRows& packed, const std::int32_t* nodes, MatrixView out,
                 ThreadPool& threads);

}  // namespace heliograph::cpu
