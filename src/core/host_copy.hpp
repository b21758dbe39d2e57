#pragma once

#include "core/buffer.hpp"
#include "core/kernels.hpp"

namespace heliograph {

/// A matrix that kernels have written, where the host can read it: the matrix itself where they run
/// on the host, else a copy. Waits for the kernels.
class HostCopy {
 public:
  HostCopy() = default;
  /// `account`: of the host's memory, may be null.
  HostCopy(ConstMatrixView matrix, Kernels& kernels, MemoryRoom room, MemoryAccount* account)
      : view_(matrix) {
    kernels.finish();
    if (kernels.memory() == nullptr || matrix.rows == 0) return;
    const auto values = static_cast<std::size_t>((matrix.rows - 1) * matrix.stride + matrix.cols);
    copy_ = Buffer(values * sizeof(float), room, account);
    kernels.download(copy_.data(), matrix.data, copy_.size());
    view_.data = copy_.as<float>().data();
  }

  ConstMatrixView view() const { return view_; }

 private:
  Buffer copy_;
  ConstMatrixView view_;
};

}  // namespace heliograph
