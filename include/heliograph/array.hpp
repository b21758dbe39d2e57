#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace heliograph {

/// An immutable array. Its elements lie in memory of its own or in other memory that it keeps
/// alive, such as a mapped file. Copies share the elements. Any thread may read it.
template <class T>
class Array {
 public:
  Array() = default;

  /// Takes ownership of `values`.
  Array(std::vector<T> values)  // NOLINT(google-explicit-constructor)
  {
    auto owned = std::make_shared<const std::vector<T>>(std::move(values));
    view_ = std::span<const T>(owned->data(), owned->size());
    storage_ = std::move(owned);
  }

  /// Refers to the elements of `view`; `storage` owns their memory.
  Array(std::span<const T> view, std::shared_ptr<const void> storage)
      : storage_(std::move(storage)), view_(view) {}

  const T* data() const noexcept { return view_.data(); }
  std::size_t size() const noexcept { return view_.size(); }
  bool empty() const noexcept { return view_.empty(); }
  const T& operator[](std::size_t i) const noexcept { return view_[i]; }
  const T* begin() const noexcept { return view_.data(); }
  const T* end() const noexcept { return view_.data() + view_.size(); }
  std::span<const T> span() const noexcept { return view_; }

 private:
  std::shared_ptr<const void> storage_;
  std::span<const T> view_;
};

}  // namespace heliograph
