#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// A CUDA device that is emulated on the CPU, so that device sources run in tests without one.
//
// - Lazy: kernels, copies, fills and frees wait in their stream, with their arguments by value,
//   until somebody waits for that stream or for an event behind them: a wait that the code under
//   test forgets shows. A copy from or to pinned memory touches it only then; one from ordinary
//   host memory has read it when the call returns, and one to it has written it, as CUDA does.
// - Device memory can be touched only by work of a stream, of the same device: for the host it is
//   not there (the process dies, and says so). New memory holds NaN, and what lies behind it is not
//   there for kernels either. What lies in a device's pool is for copies by other devices only
//   where they have access to it (cudaMemPoolSetAccess); cudaMemcpyPeerAsync does without.
// - A kernel's access at an address that is no multiple of its size ends the process, which says
//   it, where kernels are compiled for x86-64 and not with sanitizers.
// - A kernel whose arguments hold an address of the host's memory, other than page-locked memory,
//   breaks the device as it is launched.
// - A block's threads are fibers of one CPU thread. They change at barriers, shuffles and votes
//   only. Threads that wait for some that will never come are an error that names both.
// - Of a kernel's grids on a stream, every other one runs backwards, from the last block and lane
//   on, so that what is missing between threads shows in one of the two.
// - Shared memory holds NaN when a block begins; a write behind what the launch asked for is an
//   error.
// - A graph's launch is the launch of its nodes, those first that were added last, where nothing
// says
//   otherwise. An executable graph may not go before it has run. A graph's kernels must have been
//   launched before. Streams capture kernels, products and cudaMemsetAsync; a capture is broken by
//   who waits for its device meanwhile, as cublasCreate and cublasDestroy do.
// - One lock serialises everything: calls may come from any thread, but a host function in a stream
//   must not wait for another thread.
// In the environment:
// - HELIOGRAPH_EMULATED_DEVICES is the number of devices (1 if it is not set).
// - HELIOGRAPH_EMULATED_CUDA_AWARE_MPI leaves memory of cudaMalloc, and no other, open to the host,
//   and has the stand-in for mpi_is_cuda_aware (cuda_aware_mpi.cpp) say yes: an MPI that knows
//   nothing of devices then reaches what a CUDA-aware one could be given.
// - HELIOGRAPH_EMULATED_CALLS is a path: calls of this process by function are written to
//   PATH.PROCESS when it ends.

namespace heliograph::cuda_emulation {

/// The `n`-th call (1: the next) of the CUDA function of this name fails with `error`, once.
void fail_call(const char* function, int n, cudaError_t error);
/// Calls so far of the CUDA function of this name.
std::int64_t calls(const char* function);

/// Bytes that one device has. 4 GiB if it is not called.
void set_memory(std::size_t bytes);
/// Bytes that live on all devices.
std::size_t live_bytes();

/// Whether devices can use each other's memory, from now on; they do if it is not called. No device
/// has access to another one's pool then.
void let_devices_reach_each_other(bool reach);

/// Graphs and executable graphs that live.
std::size_t live_graphs();

/// Has blocks, warps and lanes of all grids run from the last to the first, or from the first to
/// the last: results must not depend on it.
void run_backwards(bool backwards);
/// Every other grid of a kernel on a stream backwards, beginning with the first, as it is if
/// nothing was said.
void run_alternately();

/// Forgets a failure of a kernel, after which every call fails (as on a device, for good), failures
/// that were ordered, and all work that waits.
void repair();

/// Pieces of work that wait in `stream`, or in all streams.
std::int64_t waiting(cudaStream_t stream);
std::int64_t waiting();

}  // namespace heliograph::cuda_emulation
