#pragma once

#include <span>

#include "core/buffer.hpp"
#include "core/device.hpp"

namespace heliograph {

/// An array of the host where kernels of a device can read it: the array itself where that is the
/// host, which must then outlive this, else a copy in memory of the device.
template <class T>
class Placed {
 public:
  Placed() = default;
  /// `account`: of the device's memory, where that is not the host's.
  Placed(std::span<const T> host, Device& device, MemoryUse use, MemoryAccount* account)
      : data_(host.data()) {
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
