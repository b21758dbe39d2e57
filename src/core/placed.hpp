#pragma once

#include <span>

#include "core/buffer.hpp"
#include "core/device.hpp"

namespace heliograph {

/// A host array as kernels of a device read it: a copy in device memory or, if the device is the
/// host, the array itself, which must outlive this object. Null for an empty array.
template <class T>
class Placed {
 public:
  Placed() = default;
  /// `account` allocates and counts the copy in device memory.
  Placed(std::span<const T> host, Device& device, MemoryUse use, MemoryAccount* account)
      : data_(host.empty() ? nullptr : host.data()) {
    if (device.on_host() || host.empty()) return;
    copy_ = Buffer(host.size_bytes(), use, account);
    device.upload(copy_.data(), host.data(), host.size_bytes());
    data_ = copy_.as<T>().data();
  }

  const T* data() const { return data_; }

 private:
  Buffer copy_;
  const T* data_ = nullptr;
};

}  // namespace heliograph
