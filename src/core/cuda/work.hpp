#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace heliograph::cuda {

/// Blocks and threads of one launch, in one dimension.
struct Grid {
  std::int64_t blocks = 0;
  int threads = 0;
  std::size_t shared_bytes = 0;
  bool operator==(const Grid&) const = default;
};

/// A kernel as it is asked for; all of it may go when the call returns that takes it.
struct KernelWork {
  /// cudaLaunchKernel for a function of its type.
  using Start = cudaError_t (*)(void* function, Grid grid, void** arguments, cudaStream_t stream);

  const char* name = nullptr;  ///< For the message where the device refuses.
  void* function = nullptr;
  Start start = nullptr;
  Grid grid;
  std::span<void*> arguments;          ///< Pointers to values of `sizes` bytes.
  std::span<const std::size_t> sizes;  ///< As many as arguments.
};

/// What a library is asked for, which asks the device for kernels of its own.
struct LibraryWork {
  /// Asks for it, on `stream`, the queue's, which is no time to use the queue. Throws
  /// Error(resource).
  using Ask = void (*)(void* library, const void* call, cudaStream_t stream);

  const char* name = nullptr;
  void* library = nullptr;
  Ask ask = nullptr;
  /// All that it is to do, in values without padding: of two that are equal the library makes the
  /// same.
  std::span<const std::byte> call;
};

}  // namespace heliograph::cuda
