#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cuda/work.hpp"

namespace heliograph::cuda {

/// A list of work for a stream, in order, with copies of all arguments. `clear` keeps its memory.
class Sequence {
 public:
  enum class Kind : std::uint8_t { kernel, library, clear };

  void add(const KernelWork& work);
  void add(const LibraryWork& work);
  /// Adds the zeroing of `bytes` bytes of device memory at `at`.
  void add(void* at, std::size_t bytes);
  void clear() noexcept;

  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  Kind kind(std::size_t i) const { return items_[i].kind; }
  const char* name(std::size_t i) const { return items_[i].name; }

  /// Whether a graph of `other` can be updated to this sequence: the same items in the same order,
  /// except that grids and arguments of kernels may differ.
  bool resembles(const Sequence& other) const;
  /// Whether item `i` of two sequences that resemble each other has equal grids and arguments.
  bool equals(const Sequence& other, std::size_t i) const;

  /// Puts item `i` on `stream`. Throws Error(resource) that names it.
  void start(std::size_t i, cudaStream_t stream);

  /// Parameters of a graph node for item `i`, a kernel. They point into the sequence and are valid
  /// until it changes.
  cudaKernelNodeParams kernel_node(std::size_t i);
  /// Parameters of a graph node for item `i`, which zeroes memory.
  cudaMemsetParams clear_node(std::size_t i) const;

 private:
  struct Item {
    Kind kind = Kind::kernel;
    const char* name = nullptr;
    void* target = nullptr;  ///< The kernel, library object or memory.
    KernelWork::Start start = nullptr;
    LibraryWork::Ask ask = nullptr;
    Grid grid{};
    std::size_t begin = 0, end = 0;                     ///< Its bytes in `values_`.
    std::size_t first_argument = 0, last_argument = 0;  ///< Its range in `arguments_`.
  };
  std::size_t keep(const void* value, std::size_t bytes);
  bool same_values(const Item& mine, const Sequence& other, const Item& theirs) const;
  /// Pointers to the arguments of a kernel, valid until the next call.
  void** arguments(const Item& item);

  std::vector<Item> items_;
  std::vector<std::byte> values_;
  std::vector<std::size_t> arguments_;  ///< Offset of each argument in `values_`.
  std::vector<void*> pointers_;
};

}  // namespace heliograph::cuda
