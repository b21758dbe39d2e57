#pragma once

#include <vector>

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

/// The values of a matrix of the host, row by row without padding.
inline std::vector<float> values_of(ConstMatrixView matrix) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(matrix.rows * matrix.cols));
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    values.insert(values.end(), matrix.row(r), matrix.row(r) + matrix.cols);
  }
  return values;
}

}  // namespace heliograph
