#pragma once

#include "core/cuda/runtime.hpp"

// Kernels whose results show how the emulated device works. All pointers are to its memory.

namespace heliograph::cuda_emulation {

/// out[i] = number of thread i, counted over the grid.
void number_threads(cuda::Queue& queue, int* out, int blocks, int threads);
/// Results of shuffles and votes for each of 32 lanes: out[kLaneResults * lane + ...].
inline constexpr int kLaneResults = 7;
void shuffle_lanes(cuda::Queue& queue, int* out);
/// Sums of 0 .. threads - 1 through shared memory, one for each block.
void sum_in_blocks(cuda::Queue& queue, int* out, int blocks, int threads);
/// Each of 96 threads adds 1 to counters[0], min and max of its number to [1] and [2].
void count_atomically(cuda::Queue& queue, int* counters);
/// Whether the block's shared memory and *fresh hold NaN before anybody has written to them.
void look_at_fresh_memory(cuda::Queue& queue, const float* fresh, int* out);

/// Kernels at which a device would hang, or whose results are undefined.
void meet_half_of_a_warp(cuda::Queue& queue);
void meet_at_two_places(cuda::Queue& queue);
void leave_before_a_shuffle(cuda::Queue& queue);
void shuffle_outside_the_mask(cuda::Queue& queue);
void write_behind_shared_memory(cuda::Queue& queue);

/// Like meet_half_of_a_warp where *whole is 0; else the whole warp meets.
void meet_if(cuda::Queue& queue, const int* whole);

/// Some of the threads end before the others meet, as kernels may do.
void leave_before_a_barrier(cuda::Queue& queue, int* out);
/// Writes a pair of integers to at[1] and at[2], which is misaligned.
void write_misaligned(cuda::Queue& queue, int* at);
/// at[index] = 1.
void poke(cuda::Queue& queue, int* at, std::int64_t index);
/// The kernel of `poke`, for graphs.
void* poke_function();
/// Lane 0 writes what lane 31 reads, without a barrier between.
void race(cuda::Queue& queue, int* out);

}  // namespace heliograph::cuda_emulation
