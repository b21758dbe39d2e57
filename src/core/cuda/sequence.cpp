#include "core/cuda/sequence.hpp"

#include <algorithm>
#include <cstring>

#include "core/cuda/runtime.hpp"
#include "core/memory_source.hpp"

namespace heliograph::cuda {
namespace {

constexpr std::size_t kAlignment = 16;  // suits every argument of a kernel

}  // namespace

void Sequence::clear() noexcept {
  items_.clear();
  values_.clear();
  arguments_.clear();
}

std::size_t Sequence::keep(const void* value, std::size_t bytes) {
  const std::size_t at = values_.size();
  values_.resize(at + round_up(bytes, kAlignment));  // zeroed, so that gaps compare equal
  std::memcpy(values_.data() + at, value, bytes);
  return at;
}

void Sequence::add(const KernelWork& work) {
  Item item{.kind = Kind::kernel,
            .name = work.name,
            .target = work.function,
            .start = work.start,
            .grid = work.grid,
            .begin = values_.size(),
            .first_argument = arguments_.size()};
  for (std::size_t i = 0; i < work.arguments.size(); ++i) {
    arguments_.push_back(keep(work.arguments[i], work.sizes[i]));
  }
  item.end = values_.size();
  item.last_argument = arguments_.size();
  items_.push_back(item);
}

void Sequence::add(const LibraryWork& work) {
  items_.push_back({.kind = Kind::library,
                    .name = work.name,
                    .target = work.library,
                    .ask = work.ask,
                    .begin = keep(work.call.data(), work.call.size()),
                    .end = values_.size()});
}

void Sequence::add(void* at, std::size_t bytes) {
  items_.push_back({.kind = Kind::clear,
                    .name = "clearing memory",
                    .target = at,
                    .begin = keep(&bytes, sizeof(bytes)),
                    .end = values_.size()});
}

bool Sequence::same_values(const Item& mine, const Sequence& other, const Item& theirs) const {
  const std::size_t bytes = mine.end - mine.begin;
  return bytes == theirs.end - theirs.begin &&
         std::equal(values_.data() + mine.begin, values_.data() + mine.end,
                    other.values_.data() + theirs.begin);
}

bool Sequence::resembles(const Sequence& other) const {
  return std::equal(items_.begin(), items_.end(), other.items_.begin(), other.items_.end(),
                    [&](const Item& mine, const Item& theirs) {
                      return mine.kind == theirs.kind && mine.target == theirs.target &&
                             mine.start == theirs.start && mine.ask == theirs.ask &&
                             (mine.kind == Kind::kernel || same_values(mine, other, theirs));
                    });
}

bool Sequence::equals(const Sequence& other, std::size_t i) const {
  return items_[i].grid == other.items_[i].grid && same_values(items_[i], other, other.items_[i]);
}

void** Sequence::arguments(const Item& item) {
  pointers_.clear();
  for (std::size_t i = item.first_argument; i < item.last_argument; ++i) {
    pointers_.push_back(values_.data() + arguments_[i]);
  }
  pointers_.push_back(nullptr);  // so that data() is not null for a kernel without arguments
  return pointers_.data();
}

void Sequence::start(std::size_t i, cudaStream_t stream) {
  const Item& item = items_[i];
  switch (item.kind) {
    case Kind::kernel:
      check(item.start(item.target, item.grid, arguments(item), stream), item.name);
      break;
    case Kind::library:
      item.ask(item.target, values_.data() + item.begin, stream);
      break;
    case Kind::clear: {
      const cudaMemsetParams memory = clear_node(i);
      check(cudaMemsetAsync(memory.dst, 0, memory.width, stream), item.name);
      break;
    }
  }
}

cudaKernelNodeParams Sequence::kernel_node(std::size_t i) {
  const Item& item = items_[i];
  cudaKernelNodeParams node{};
  node.func = item.target;
  node.gridDim = dim3(static_cast<unsigned>(item.grid.blocks));
  node.blockDim = dim3(static_cast<unsigned>(item.grid.threads));
  node.sharedMemBytes = static_cast<unsigned>(item.grid.shared_bytes);
  node.kernelParams = arguments(item);
  return node;
}

cudaMemsetParams Sequence::clear_node(std::size_t i) const {
  cudaMemsetParams memory{};
  memory.dst = items_[i].target;
  memory.elementSize = 1;
  std::memcpy(&memory.width, values_.data() + items_[i].begin, sizeof(memory.width));
  memory.height = 1;
  return memory;
}

}  // namespace heliograph::cuda
