#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/matrix.hpp"
#include "core/memory_source.hpp"

namespace heliograph {

/// The purpose of a buffer; the summary reports peak memory by use.
enum class MemoryUse : std::uint8_t {
  graph,
  features,
  activations,
  gradients,
  halo,
  weights,
  workspace,
  evaluation
};
inline constexpr int kMemoryUses = 8;

/// Name of a use in the summary: "graph", "features", ...
const char* memory_use_name(MemoryUse use) noexcept;

/// One rank's live and peak bytes by use, and the source of its buffers. Used only by that rank's
/// thread, which also makes and destroys the buffers.
class MemoryAccount {
 public:
  /// An account whose buffers come from the heap.
  MemoryAccount() = default;
  /// An account whose buffers come from `source`, which must outlive them. With null, buffers are
  /// counted but stay empty, so that a run's memory can be computed before it starts.
  explicit MemoryAccount(MemorySource* source) : source_(source), heap_(false) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  /// Adds `bytes`, which may be negative, of memory that no Buffer owns.
  void add(MemoryUse use, std::int64_t bytes) noexcept;

  std::int64_t live(MemoryUse use) const noexcept { return live_[index(use)]; }
  std::int64_t peak(MemoryUse use) const noexcept { return peak_[index(use)]; }
  /// Sets the peaks to the live bytes.
  void reset_peaks() noexcept { peak_ = live_; }
  /// Whether buffers are only counted and never allocated.
  bool counts_only() const noexcept { return !heap_ && source_ == nullptr; }

 private:
  friend class Buffer;
  static std::size_t index(MemoryUse use) { return static_cast<std::size_t>(use); }

  std::array<std::int64_t, kMemoryUses> live_{};
  std::array<std::int64_t, kMemoryUses> peak_{};
  MemorySource* source_ = nullptr;
  bool heap_ = true;
};

/// Owns zeroed, 64-byte aligned memory with 64 readable bytes past its end, on the host or, if the
/// account's source is a device, there. Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// `account` must outlive the buffer; null takes heap memory that is not counted. Throws
  /// Error(resource) that names the use and the size.
  Buffer(std::size_t bytes, MemoryUse use, MemoryAccount* account);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const noexcept { return data_; }
  /// Size in bytes; 0 if the account only counts.
  std::size_t size() const noexcept { return data_ == nullptr ? 0 : bytes_; }
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(data_), size() / sizeof(T)};
  }

 private:
  MemorySource* source() const noexcept {
    return account_ == nullptr ? nullptr : account_->source_;
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::workspace;
  MemoryAccount* account_ = nullptr;
};

/// Counts the memory of containers, such as vectors, as long as it exists.
class CountedBytes {
 public:
  /// `account` may be null; otherwise it must outlive the object.
  CountedBytes(MemoryUse use, MemoryAccount* account) : use_(use), account_(account) {}
  ~CountedBytes() { set(0); }
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;

  /// Replaces the number of bytes that this object counts.
  void set(std::int64_t bytes) noexcept {
    if (account_ != nullptr && bytes != bytes_) account_->add(use_, bytes - bytes_);
    bytes_ = bytes;
  }

 private:
  MemoryUse use_;
  MemoryAccount* account_;
  std::int64_t bytes_ = 0;
};

/// Owns a zeroed row-major matrix whose rows begin on 64-byte lines.
template <class T>
class BasicMatrix {
 public:
  BasicMatrix() = default;
  BasicMatrix(std::int64_t rows, std::int64_t cols, MemoryUse use, MemoryAccount* account)
      : buffer_(static_cast<std::size_t>(rows * padded_stride<T>(cols)) * sizeof(T), use, account),
        view_{reinterpret_cast<T*>(buffer_.data()), rows, cols, padded_stride<T>(cols)} {}

  BasicMatrixView<T> view() const noexcept { return view_; }
  bool empty() const noexcept { return view_.data == nullptr; }

 private:
  Buffer buffer_;
  BasicMatrixView<T> view_;
};

using Matrix = BasicMatrix<float>;

}  // namespace heliograph
