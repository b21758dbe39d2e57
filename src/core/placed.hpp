#pragma once

#include <span>

#include "core/buffer.hpp"
#include "core/kernels.hpp"

namespace heliograph {

/// An array of the host where kernels can read it: the array itself where they run on the host,
/// which must then outlive this, else a copy in memory of their device.
template <class T>
class Placed {
 public:
  Placed() = default;
  /// `account`: of the device's memory, where that is not the host's.
  Placed(std::span<const T> host, Kernels& kernels, MemoryRoom room, MemoryAccount* account)
      : data_(host.data()) {
    if (kernels.memory() == nullptr || host.empty()) return;
    copy_ = Buffer(host.size_bytes(), room, account);
    kernels.upload(copy_.data(), host.data(), host.size_bytes());
    data_ = copy_.as<T>().data();
  }

  const T* data() const { return data_; }

 private:
  Buffer copy_;
  const T* data_ = nullptr;
};

}  // namespace heliograph
