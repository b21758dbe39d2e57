#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace heliograph::cuda {

/// The one-dimensional grid of one launch.
struct Grid {
  std::int64_t blocks = 0;
  int threads = 0;
  std::size_t shared_bytes = 0;
  bool operator==(const Grid&) const = default;
};

/// A kernel with its arguments. Whoever takes one copies what it needs before it returns.
struct KernelWork {
  /// A function that calls cudaLaunchKernel for kernels of one type.
  using Start = cudaError_t (*)(void* function, Grid grid, void** arguments, cudaStream_t stream);

  const char* name = nullptr;  ///< For error messages.
  void* function = nullptr;
  Start start = nullptr;
  Grid grid;
  std::span<void*> arguments;          ///< Pointers to the arguments.
  std::span<const std::size_t> sizes;  ///< Size of each argument in bytes.
};

/// A call of a library, such as cuBLAS, that launches kernels of its own.
struct LibraryWork {
  /// A function that makes `call` on `stream`, the queue's. It must not use the queue. Throws
  /// Error(resource).
  using Ask = void (*)(void* library, const void* call, cudaStream_t stream);

  const char* name = nullptr;
  void* library = nullptr;
  Ask ask = nullptr;
  /// Arguments of the call, without padding: equal bytes mean equal work.
  std::span<const std::byte> call;
};

}  // namespace heliograph::cuda
