#pragma once

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/matrix.hpp"

namespace heliograph {

/// A device's matrix as the host reads it: the matrix itself if the device is the host, else a
/// copy. Making one waits for the device.
class HostCopy {
 public:
  HostCopy() = default;
  /// `account` counts the copy in host memory and may be null.
  HostCopy(ConstMatrixView matrix, Device& device, MemoryUse use, MemoryAccount* account)
      : view_(matrix) {
    device.finish();
    if (device.on_host() || matrix.rows == 0) return;
    const auto values = static_cast<std::size_t>((matrix.rows - 1) * matrix.stride + matrix.cols);
    copy_ = Buffer(values * sizeof(float), use, account);
    device.download(copy_.data(), matrix.data, copy_.size());
    view_.data = copy_.as<float>().data();
  }

  ConstMatrixView view() const { return view_; }

 private:
  Buffer copy_;
  ConstMatrixView view_;
};

}  // namespace heliograph
