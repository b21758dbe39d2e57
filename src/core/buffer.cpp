#include "core/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// Bytes to allocate for a buffer of `bytes`: whole lines, and one more that may be read.
std::size_t taken(std::size_t bytes) { return round_up(bytes, kLineBytes) + kLineBytes; }

}  // namespace

const char* memory_use_name(MemoryUse use) noexcept {
  static constexpr const char* kNames[kMemoryUses] = {"graph",     "features",  "activations",
                                                      "gradients", "halo",      "weights",
                                                      "workspace", "evaluation"};
  return kNames[static_cast<int>(use)];
}

void MemoryAccount::add(MemoryUse use, std::int64_t bytes) noexcept {
  const std::size_t i = index(use);
  live_[i] += bytes;
  peak_[i] = std::max(peak_[i], live_[i]);
}

Buffer::Buffer(std::size_t bytes, MemoryUse use, MemoryAccount* account)
    : bytes_(bytes), use_(use), account_(account) {
  if (bytes == 0) return;
  if (account_ == nullptr || !account_->counts_only()) {
    const std::size_t whole = taken(bytes);
    data_ = source() != nullptr ? source()->take(whole)
                                : static_cast<std::byte*>(std::aligned_alloc(kLineBytes, whole));
    if (data_ == nullptr) {
      const std::string more = source() != nullptr ? source()->shortage() : std::string();
      throw_error(ErrorCode::resource, "out of memory: {} bytes for {}{}", bytes,
                  memory_use_name(use), more.empty() ? "" : "; " + more);
    }
    if (source() == nullptr) std::memset(data_, 0, whole);
  }
  if (account_ != nullptr) account_->add(use_, static_cast<std::int64_t>(bytes_));
}

Buffer::~Buffer() {
  if (bytes_ == 0) return;  // Threads may end empty buffers at any time, so they touch no account.
  if (account_ != nullptr) account_->add(use_, -static_cast<std::int64_t>(bytes_));
  if (source() == nullptr) {
    std::free(data_);
  } else if (data_ != nullptr) {
    source()->give_back(data_, taken(bytes_));
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      use_(other.use_),
      account_(other.account_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
    std::swap(account_, other.account_);
  }
  return *this;
}

}  // namespace heliograph
