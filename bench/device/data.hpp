#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"
#include "quant/codec.hpp"

namespace heliograph::bench {

/// A copy of a host array in device memory.
template <class T>
class Array {
 public:
  Array(Kernels& kernels, MemoryAccount& account, const std::vector<T>& host)
      : buffer_(host.size() * sizeof(T), MemoryUse::workspace, &account), count_(host.size()) {
    kernels.device().upload(buffer_.data(), host.data(), count_ * sizeof(T));
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::size_t size() const { return count_; }

 private:
  Buffer buffer_;
  std::size_t count_;
};

/// Makes the inputs of kernels in memory of their device, which the object counts.
class Data {
 public:
  explicit Data(Kernels& kernels) : kernels_(kernels), account_(kernels.device().memory()) {}

  Kernels& kernels() { return kernels_; }
  MemoryAccount& account() { return account_; }
  std::mt19937& random() { return random_; }

  Matrix empty(std::int64_t rows, std::int64_t cols) {
    return Matrix(rows, cols, MemoryUse::workspace, &account_);
  }
  Matrix normal(std::int64_t rows, std::int64_t cols) {
    const Matrix host(rows, cols, MemoryUse::workspace, nullptr);
    const auto count = static_cast<std::size_t>(host.view().rows * host.view().stride);
    const std::size_t drawn = std::min(count, kDrawn);
    std::normal_distribution<float> draw;
    std::generate_n(host.view().data, drawn, [&] { return draw(random_); });
    for (std::size_t i = drawn; i < count; ++i) host.view().data[i] = host.view().data[i - drawn];
    Matrix device = empty(rows, cols);
    kernels_.device().upload(device.view().data, host.view().data, count * sizeof(float));
    return device;
  }
  template <class T>
  Array<T> array(const std::vector<T>& host) {
    return Array<T>(kernels_, account_, host);
  }
  std::vector<std::int32_t> random_order(std::int64_t count) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

 private:
  /// A matrix repeats this many values, since drawing more takes longer than the measurements.
  static constexpr std::size_t kDrawn = std::size_t{1} << 22;

  Kernels& kernels_;
  MemoryAccount account_;
  std::mt19937 random_{1};
};

/// The rows of a matrix in random order, encoded.
class Packed {
 public:
  Packed(Data& data, ConstMatrixView x, int bits)
      : kernels_(data.kernels()),
        x_(x),
        order_(data.random_order(x.rows)),
        rows_(data.array(order_)),
        ids_(data.array(std::vector<std::int64_t>(order_.begin(), order_.end()))),
        codec_(make_codec({bits, true}, kernels_.device())),
        out_(codec_->encoded_bytes(x.rows, x.cols), MemoryUse::workspace, &data.account()) {
    encode();
  }
  void encode() {
    codec_->encode(x_, {{rows_.data(), rows_.size()}, nullptr, ids_.data()}, ++stream_, out_.data(),
                   kernels_.device().threads());
  }
  PackedRows rows() const { return {out_.data(), x_.rows, x_.cols, 0, codec_->format()}; }
  double bytes() const { return static_cast<double>(out_.size()); }

 private:
  Kernels& kernels_;
  ConstMatrixView x_;
  std::vector<std::int32_t> order_;
  Array<std::int32_t> rows_;
  Array<std::int64_t> ids_;
  std::unique_ptr<Codec> codec_;
  Buffer out_;
  std::uint64_t stream_ = 0;
};

}  // namespace heliograph::bench
