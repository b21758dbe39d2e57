#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cuda/work.hpp"

namespace heliograph::cuda {

/// Work in the order in which it was asked for, with arguments by value. Keeps its memory.
class Sequence {
 public:
  enum class Kind : std::uint8_t { kernel, library, clear };

  void add(const KernelWork& work);
  void add(const LibraryWork& work);
  /// To zero memory.
  void add(void* at, std::size_t bytes);
  void clear() noexcept;

  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  Kind kind(std::size_t i) const { return items_[i].kind; }
  const char* name(std::size_t i) const { return items_[i].name; }

  /// Whether `other` is the same kernels and the same of everything else in the same order, so that
  /// a graph of one can be made that of the other. Grids and arguments of kernels may differ.
  bool resembles(const Sequence& other) const;
  /// Whether item `i`, which resembles that of `other`, is the same in all.
  bool equals(const Sequence& other, std::size_t i) const;

  /// Asks `stream` for item `i`. Throws Error(resource) that names it.
  void start(std::size_t i, cudaStream_t stream);

  /// Item `i`, a kernel or memory to zero, for a graph. Points into the sequence, until it changes.
  cudaKernelNodeParams kernel_node(std::size_t i);
  cudaMemsetParams clear_node(std::size_t i) const;

 private:
  struct Item {
    Kind kind = Kind::kernel;
    const char* name = nullptr;
    void* target = nullptr;  ///< The kernel, the library, or the memory.
    KernelWork::Start start = nullptr;
    LibraryWork::Ask ask = nullptr;
    Grid grid{};
    std::size_t begin = 0, end = 0;                     ///< Of its values, in bytes.
    std::size_t first_argument = 0, last_argument = 0;  ///< Of its arguments in `arguments_`.
  };
  std::size_t keep(const void* value, std::size_t bytes);
  bool same_values(const Item& mine, const Sequence& other, const Item& theirs) const;
  /// Pointers to the arguments of a kernel.
  void** arguments(const Item& item);

  std::vector<Item> items_;
  std::vector<std::byte> values_;
  std::vector<std::size_t> arguments_;  ///< Where in `values_` each argument begins.
  std::vector<void*> pointers_;
};

}  // namespace heliograph::cuda
