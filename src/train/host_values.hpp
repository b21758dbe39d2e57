#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "core/device.hpp"

namespace heliograph {

/// Values of a device where the host can read them: the values themselves if the device is the
/// host, otherwise a copy. The device and its values must outlive the object.
template <class T>
class HostValues {
 public:
  HostValues(std::span<T> values, Device& device)
      : device_(device), values_(values), view_(values) {
    if (device.on_host()) return;
    copy_.resize(values.size());
    device.download(copy_.data(), values.data(), values.size_bytes());
    view_ = copy_;
  }
  HostValues(const HostValues&) = delete;
  HostValues& operator=(const HostValues&) = delete;

  std::span<T> view() const { return view_; }
  /// Gives the device what was written to `view`.
  void store() {
    if (!device_.on_host()) device_.upload(values_.data(), view_.data(), values_.size_bytes());
  }

 private:
  Device& device_;
  std::span<T> values_;
  std::vector<std::remove_const_t<T>> copy_;
  std::span<T> view_;
};

}  // namespace heliograph
