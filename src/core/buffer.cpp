#include "core/buffer.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "heliograph/error.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kLine = 64;

const char* room_name(MemoryRoom room) {
  static constexpr const char* kNames[kMemoryRooms] = {"graph",     "features",  "activations",
                                                       "gradients", "halo",      "weights",
                                                       "workspace", "evaluation"};
  return kNames[static_cast<int>(room)];
}

}  // namespace

void MemoryAccount::add(MemoryRoom room, std::int64_t bytes) noexcept {
  const auto i = static_cast<std::size_t>(room);
  const std::int64_t now = live_[i].fetch_add(bytes) + bytes;
  if (bytes > 0) allocations_.fetch_add(1);
  std::int64_t peak = peak_[i].load();
  while (now > peak && !peak_[i].compare_exchange_weak(peak, now)) {
  }
}

std::int64_t MemoryAccount::live(MemoryRoom room) const noexcept {
  return live_[static_cast<std::size_t>(room)].load();
}

std::int64_t MemoryAccount::peak(MemoryRoom room) const noexcept {
  return peak_[static_cast<std::size_t>(room)].load();
}

Buffer::Buffer(std::size_t bytes, MemoryRoom room, MemoryAccount* account)
    : bytes_(bytes), room_(room), account_(account) {
  if (bytes == 0) return;
  const std::size_t whole = (bytes + kLine - 1) / kLine * kLine + kLine;
  data_ = static_cast<std::byte*>(std::aligned_alloc(kLine, whole));
  if (data_ == nullptr) {
    throw Error(ErrorCode::resource,
                "out of memory: " + std::to_string(bytes) + " bytes for " + room_name(room));
  }
  std::memset(data_, 0, whole);
  if (account_ != nullptr) account_->add(room_, static_cast<std::int64_t>(bytes_));
}

Buffer::~Buffer() {
  if (data_ != nullptr && account_ != nullptr) {
    account_->add(room_, -static_cast<std::int64_t>(bytes_));
  }
  std::free(data_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      room_(other.room_),
      account_(other.account_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(room_, other.room_);
    std::swap(account_, other.account_);
  }
  return *this;
}

}  // namespace heliograph
