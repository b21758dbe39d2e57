#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace heliograph {

/// A first-in first-out queue that allocates only when it holds more than it ever did. One that
/// is never used holds nothing, since there are several for each pair of ranks.
template <class T>
class Ring {
 public:
  /// `capacity`: what the first push allocates; a power of two.
  explicit Ring(std::size_t capacity = 32) : capacity_(capacity) {}

  /// Makes the next push that allocates make room for this many items.
  void expect(std::size_t items) { capacity_ = std::bit_ceil(std::max(capacity_, items)); }

  bool empty() const noexcept { return count_ == 0; }
  std::size_t size() const noexcept { return count_; }

  /// The i-th from the front.
  T& operator[](std::size_t i) noexcept { return items_[(first_ + i) & (items_.size() - 1)]; }
  const T& operator[](std::size_t i) const noexcept {
    return items_[(first_ + i) & (items_.size() - 1)];
  }

  void push(const T& item) {
    if (count_ == items_.size()) grow();
    ++count_;
    (*this)[count_ - 1] = item;
  }

  void pop() noexcept {
    first_ = (first_ + 1) & (items_.size() - 1);
    --count_;
  }

 private:
  void grow() {
    std::vector<T> larger(std::max(capacity_, items_.size() * 2));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = (*this)[i];
    items_.swap(larger);
    first_ = 0;
  }

  std::size_t capacity_;
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace heliograph
