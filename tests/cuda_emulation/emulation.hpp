#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// A CUDA device that is emulated on the CPU, so that tests run device sources without one.
//
// - Kernels, copies, fills and frees wait in their stream, with their arguments by value, until the
//   program waits for that stream or for an event behind them. So a test notices if the code under
//   test forgets a wait. A copy touches page-locked memory only when it runs; ordinary host memory
//   has been read or written when the call returns, as with CUDA.
// - Work behind cudaStreamWaitEvent does the work of the other stream before the event first.
// Waiting
//   for a stream by a call that returns only when it is done breaks the device if that needs
//   messages of other ranks: only questions for its state let them go on.
// - Only the work of a stream of the same device can touch device memory. If the host touches it,
//   the process prints an error and dies. New memory holds NaN, and accesses behind it fault.
//   Copies of other devices need access to a device's pool (cudaMemPoolSetAccess), except for
//   cudaMemcpyPeerAsync.
// - If kernels are compiled for x86-64 without sanitizers, a kernel's misaligned access prints an
//   error and ends the process.
// - Launching a kernel breaks the device if an argument of the kernel holds the address of host
//   memory that is not page-locked.
// - The threads of a block are fibers of one CPU thread. They take turns at barriers, shuffles and
//   votes only. If threads wait for others that never arrive, an error names both.
// - Every other grid of a kernel on a stream runs backwards, from the last block and lane on. So a
//   missing barrier leads to wrong results in one of the two orders.
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
// - HELIOGRAPH_GRID_ORDER is the order of grids: forwards, backwards or, if it is not set,
//   alternating.
// - HELIOGRAPH_EMULATED_CUDA_AWARE_MPI stands for a CUDA-aware MPI: the host may touch memory of
//   cudaMalloc, and mpi_is_cuda_aware (command/cuda_aware_mpi.cpp) says yes.
// - HELIOGRAPH_EMULATED_CALLS is a path. When the process ends, it writes how often it called each
//   function to PATH.PROCESS.

namespace heliograph::cuda_emulation {

/// Makes the `n`-th call from now on of the CUDA function of this name fail with `error`, once.
void fail_call(const char* function, int n, cudaError_t error);
/// How often the CUDA function of this name was called.
std::int64_t calls(const char* function);
/// How often the host has waited for a stream, an event or a device: calls that synchronize, and
/// questions for a stream's state until it was done.
std::int64_t host_waits();

/// Copies of one direction between the host and devices.
struct Copies {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};
/// The copies that were asked for so far, to devices or to the host.
Copies copies_to_devices();
Copies copies_to_host();

/// Sets the bytes of memory that one device has. At first it has 4 GiB.
void set_memory(std::size_t bytes);
/// The bytes in use on all devices.
std::size_t live_bytes();

/// Sets whether devices can use each other's memory from now on. At first they can. Revokes all
/// access to pools.
void let_devices_reach_each_other(bool reach);

/// Sets whether copies from memory of one device to that of another write nothing from now on.
void lose_copies(int from, int to, bool lose = true);

/// The number of graphs and executable graphs that exist.
std::size_t live_graphs();

/// The order in which the blocks, warps and lanes of a grid run. `alternating` runs every other
/// grid of a kernel on a stream backwards, beginning with the first.
enum class GridOrder : std::uint8_t { alternating, forwards, backwards };
void set_order(GridOrder order);
/// That of HELIOGRAPH_GRID_ORDER.
GridOrder order_at_first();

/// Forgets a kernel's failure (after which every call fails, as on a device), failures that were
/// requested for later calls, captures, and all work that waits.
void repair();

/// The number of pieces of work that wait in `stream`, or in all streams.
std::int64_t waiting(cudaStream_t stream);
std::int64_t waiting();

}  // namespace heliograph::cuda_emulation
