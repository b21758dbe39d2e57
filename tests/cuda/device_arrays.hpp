#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"

// Arrays on the device that begin as copies of arrays on the host, and the fixture of twin tests.

namespace heliograph {

/// An array on the device.
template <class T>
class DeviceArray {
 public:
  /// Takes memory of the kernels' device from `account`. Both must outlive the array.
  DeviceArray(Kernels& kernels, MemoryAccount& account, std::span<const T> host)
      : kernels_(&kernels),
        count_(host.size()),
        buffer_(host.size_bytes(), MemoryUse::workspace, &account) {
    kernels.device().upload(buffer_.data(), host.data(), host.size_bytes());
  }

  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::size_t size() const { return count_; }
  /// The present values.
  std::vector<T> values() const {
    std::vector<T> host(count_);
    kernels_->device().download(host.data(), data(), count_ * sizeof(T));
    return host;
  }

 private:
  Kernels* kernels_;
  std::size_t count_;
  Buffer buffer_;
};

/// A matrix on the device, padded as on the host.
template <class T = float>
class BasicDeviceMatrix {
 public:
  /// A matrix of zeros.
  BasicDeviceMatrix(Kernels& kernels, MemoryAccount& account, std::int64_t rows, std::int64_t cols)
      : kernels_(&kernels), matrix_(rows, cols, MemoryUse::workspace, &account) {}
  /// A copy of `host`, including the padding.
  BasicDeviceMatrix(Kernels& kernels, MemoryAccount& account, const BasicMatrix<T>& host)
      : BasicDeviceMatrix(kernels, account, host.view().rows, host.view().cols) {
    kernels.device().upload(matrix_.view().data, host.view().data, bytes(host.view()));
  }

  BasicMatrixView<T> view() const { return matrix_.view(); }
  /// The present values, including the padding.
  BasicMatrix<T> values() const {
    const BasicMatrixView<T> from = matrix_.view();
    BasicMatrix<T> host(from.rows, from.cols, MemoryUse::workspace, nullptr);
    kernels_->device().download(host.view().data, from.data, bytes(from));
    return host;
  }

 private:
  static std::size_t bytes(const BasicMatrixView<T>& view) {
    return static_cast<std::size_t>(view.rows * view.stride) * sizeof(T);
  }

  Kernels* kernels_;
  BasicMatrix<T> matrix_;
};
using DeviceMatrix = BasicDeviceMatrix<float>;

/// The sizes at which every kernel is tested.
inline constexpr std::int64_t kTwinSizes[] = {0, 1, 31, 33, 257};

/// Has the kernels of a device, `cuda`, and of the CPU, `cpu`. Skips where there is no device.
class TwinTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
    cuda = make_cuda_kernels(0, 1);
    cpu = make_cpu_kernels(1, false);
    account = std::make_unique<MemoryAccount>(cuda->device().memory());
  }

  template <class T>
  DeviceArray<T> on_device(const std::vector<T>& host) {
    return DeviceArray<T>(*cuda, *account, std::span<const T>(host));
  }
  template <class T>
  BasicDeviceMatrix<T> on_device(const BasicMatrix<T>& host) {
    return BasicDeviceMatrix<T>(*cuda, *account, host);
  }
  DeviceMatrix device_matrix(std::int64_t rows, std::int64_t cols) {
    return DeviceMatrix(*cuda, *account, rows, cols);
  }

  /// Normal values. The padding is NaN, which must not reach any result.
  Matrix normal_matrix(std::int64_t rows, std::int64_t cols) {
    Matrix m(rows, cols, MemoryUse::workspace, nullptr);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = m.view().row(r);
      for (std::int64_t c = 0; c < cols; ++c) row[c] = normal_(random_);
      std::fill(row + cols, row + m.view().stride, std::numeric_limits<float>::quiet_NaN());
    }
    return m;
  }
  std::vector<float> normal_values(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) v = normal_(random_);
    return values;
  }

  std::mt19937 random_{17};
  std::normal_distribution<float> normal_;
  std::unique_ptr<Kernels> cuda;
  std::unique_ptr<Kernels> cpu;
  std::unique_ptr<MemoryAccount> account;  ///< Of the device's memory.
};

/// Fails the test unless each value of `actual` is within `bound` of its twin.
inline void expect_near(ConstMatrixView actual, ConstMatrixView expected, double bound) {
  ASSERT_EQ(actual.rows, expected.rows);
  ASSERT_EQ(actual.cols, expected.cols);
  for (std::int64_t r = 0; r < actual.rows; ++r) {
    for (std::int64_t c = 0; c < actual.cols; ++c) {
      ASSERT_NEAR(actual.row(r)[c], expected.row(r)[c], bound) << "row " << r << " column " << c;
    }
  }
}
inline void expect_near(const std::vector<float>& actual, const std::vector<float>& expected,
                        double bound) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], bound) << "value " << i;
  }
}

}  // namespace heliograph
