#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// A CUDA device that is emulated on the CPU, so that tests run device sources without one.
//
// - Kernels, copies, fills and frees wait in their stream, with their arguments by value, until
//   somebody waits for that stream or for an event behind them. So a wait that the code under test
//   forgets shows. A copy touches page-locked memory only then; ordinary host memory has been read
//   or written when the call returns, as with CUDA.
// - Only the work of a stream of the same device can touch device memory. The host finds no memory
//   there: the process dies and says so. New memory holds NaN, and a kernel finds no memory behind
//   it. Other devices' copies reach a device's pool only with access to it (cudaMemPoolSetAccess),
//   but cudaMemcpyPeerAsync needs none.
// - A kernel's misaligned access ends the process, which says so, where kernels are compiled for
//   x86-64 without sanitizers.
// - Launching a kernel breaks the device if an argument of the kernel holds the address of host
//   memory that is not page-locked.
// - The threads of a block are fibers of one CPU thread. They take turns at barriers, shuffles and
//   votes only. If threads wait for others that never arrive, an error names both.
// - Every other grid of a kernel on a stream runs backwards, from the last block and lane on, so a
//   barrier that is missing shows in one of the two orders.
// - Shared memory holds NaN when a block begins. A write past the size that the launch requested is
//   an error.
// - Launching a graph launches its nodes. If its edges leave the order open, the node that was
//   added last runs first. An executable graph cannot be destroyed before it has run, and runs on
//   one stream only. The kernels of a graph must have been launched before. Streams capture
//   kernels, products and cudaMemsetAsync. Waiting for a device while one of its streams captures
//   breaks the capture; cublasCreate and cublasDestroy wait for the device.
// - One lock serialises everything, so calls may come from any thread.
//
// Variables of the environment:
// - HELIOGRAPH_EMULATED_DEVICES is the number of devices, 1 if it is not set.
// - HELIOGRAPH_EMULATED_CUDA_AWARE_MPI stands for a CUDA-aware MPI: the host may touch memory of
//   cudaMalloc, and mpi_is_cuda_aware (command/cuda_aware_mpi.cpp) says yes.
// - HELIOGRAPH_EMULATED_CALLS is a path. When the process ends, it writes how often it called each
//   function to PATH.PROCESS.

namespace heliograph::cuda_emulation {

/// The `n`-th call (1: the next) of the CUDA function of this name fails with `error`, once.
void fail_call(const char* function, int n, cudaError_t error);
/// How often the CUDA function of this name was called.
std::int64_t calls(const char* function);

/// Sets the bytes that one device has, 4 GiB at first.
void set_memory(std::size_t bytes);
/// The bytes in use on all devices.
std::size_t live_bytes();

/// Whether devices can use each other's memory from now on, as they can at first. Takes back all
/// access to pools.
void let_devices_reach_each_other(bool reach);

/// The number of graphs and executable graphs that exist.
std::size_t live_graphs();

/// The order in which the blocks, warps and lanes of a grid run. `alternating`, the order at first,
/// runs every other grid of a kernel on a stream backwards, beginning with the first.
enum class GridOrder : std::uint8_t { alternating, forwards, backwards };
void set_order(GridOrder order);

/// Forgets a kernel's failure (after which every call fails, as on a device), failures that were
/// ordered, captures, and all work that waits.
void repair();

/// How many pieces of work wait in `stream`, or in all streams.
std::int64_t waiting(cudaStream_t stream);
std::int64_t waiting();

}  // namespace heliograph::cuda_emulation
