// Copies of messages between the host and devices, and between two devices.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/copy_bytes.hpp"
#include "core/cuda/cuda_device.hpp"

namespace heliograph {
namespace {

constexpr const char* kCopy = "copy a message";

/// The device whose memory `pointer` points to; -1 for host memory.
int device_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, pointer), kCopy);
  return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

/// Selects a device for the calling thread while it lives.
class Selected {
 public:
  explicit Selected(int device) {
    cuda::check(cudaGetDevice(&before_), kCopy);
    cuda::check(cudaSetDevice(device), kCopy);
  }
  ~Selected() { cudaSetDevice(before_); }
  Selected(const Selected&) = delete;
  Selected& operator=(const Selected&) = delete;

 private:
  int before_ = 0;
};

/// Whether the selected device can access memory of `device`; -1, the host, it always can.
bool reaches(int device) {
  int selected = 0, can = 0;
  cuda::check(cudaGetDevice(&selected), kCopy);
  if (device < 0 || device == selected) return true;
  cuda::check(cudaDeviceCanAccessPeer(&can, selected, device), kCopy);
  return can != 0;
}

/// Copies by one call on a stream of the calling thread's own, which waits for no rank's kernels.
void copy_at_once(std::byte* to, int target, const std::byte* from, int source, std::size_t bytes) {
  if (target >= 0 && source >= 0 && !(reaches(target) && reaches(source))) {
    // Only this call accepts memory of a pool that the copying device cannot access.
    cuda::check(cudaMemcpyPeerAsync(to, target, from, source, bytes, cudaStreamPerThread), kCopy);
  } else {
    cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread), kCopy);
  }
  cuda::check(cudaStreamSynchronize(cudaStreamPerThread), kCopy);
}

/// The page-locked memory through which messages from one device to another go.
class Stage {
 public:
  void copy(std::byte* to, int target, const std::byte* from, int source, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < bytes; at += kBytes) {
      const std::size_t piece = std::min(kBytes, bytes - at);
      {
        const Selected device(source);
        copy_at_once(memory_, -1, from + at, source, piece);
      }
      const Selected device(target);
      copy_at_once(to + at, target, memory_, -1, piece);
    }
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  std::mutex mutex_;
  std::byte* const memory_ = cuda::PageLockedMemory().take(kBytes);
};

/// The pairs of devices, source first, between which direct copies do not arrive. A stage is kept
/// to the end of the process, as other runs may use it.
class LostCopies {
 public:
  using Pair = std::pair<int, int>;

  /// Null if copies arrive.
  Stage* find(Pair pair) {
    if (!any_) return nullptr;
    const std::shared_lock lock(mutex_);
    const auto found = pairs_.find(pair);
    return found == pairs_.end() || !found->second.lost ? nullptr : found->second.stage.get();
  }
  void set(Pair pair, bool lost) {
    const std::unique_lock lock(mutex_);
    if (!lost && !pairs_.contains(pair)) return;
    Entry& entry = pairs_[pair];
    if (lost && entry.stage == nullptr) entry.stage = std::make_unique<Stage>();
    entry.lost = lost;
    any_ = true;
  }

 private:
  struct Entry {
    bool lost = false;
    std::unique_ptr<Stage> stage;
  };
  std::shared_mutex mutex_;
  std::atomic<bool> any_{false};
  std::map<Pair, Entry> pairs_;
};

LostCopies& lost_copies() {
  static auto* const all = new LostCopies;
  return *all;
}

/// Memory of one device as ranks have it, for messages of the check.
struct CheckedDevice {
  static constexpr std::size_t kBytes = std::size_t{1} << 16;

  CheckedDevice(int index, int devices) : device(index, 1, devices) {}

  cuda::CudaDevice device;
  MemoryAccount account{device.memory()};
  Buffer sent{kBytes, MemoryUse::workspace, &account};
  Buffer received{kBytes, MemoryUse::workspace, &account};
};

/// Whether a message arrives, copied by the sender's device and by the receiver's.
bool arrives(CheckedDevice& source, int from, CheckedDevice& target, int to) {
  std::vector<std::uint8_t> pattern(CheckedDevice::kBytes), read(CheckedDevice::kBytes);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = static_cast<std::uint8_t>(i * 37 + i / 256 + static_cast<std::size_t>(from) + 1);
  }
  {
    const Selected selected(from);
    source.device.upload(source.sent.data(), pattern.data(), pattern.size());
    source.device.finish();
  }
  for (const int copier : {from, to}) {
    const Selected end(to);
    target.device.queue()->clear(target.received.data(), read.size());
    target.device.finish();
    {
      const Selected selected(copier);
      copy_at_once(target.received.data(), to, source.sent.data(), from, read.size());
    }
    target.device.download(read.data(), target.received.data(), read.size());
    if (read != pattern) return false;
  }
  return true;
}

}  // namespace

void copy_by_cuda(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  const int target = device_of(to), source = device_of(from);
  if (Stage* stage = lost_copies().find({source, target})) {
    stage->copy(to, target, from, source, bytes);
  } else {
    copy_at_once(to, target, from, source, bytes);
  }
}

std::string check_copies_between_devices(int ranks) {
  const int devices = std::min(cuda_devices(), ranks);
  if (devices < 2) return {};
  const Selected restored(0);
  std::vector<std::unique_ptr<CheckedDevice>> all;
  for (int i = 0; i < devices; ++i) all.push_back(std::make_unique<CheckedDevice>(i, devices));
  std::string pairs;
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      CheckedDevice& source = *all[static_cast<std::size_t>(from)];
      CheckedDevice& target = *all[static_cast<std::size_t>(to)];
      const bool lost = !arrives(source, from, target, to);
      lost_copies().set({from, to}, lost);
      if (lost)
        pairs += (pairs.empty() ? "" : ", ") + std::to_string(from) + " to " + std::to_string(to);
    }
  }
  if (pairs.empty()) return {};
  return "copies between CUDA devices do not arrive (" + pairs +
         "), so messages between them go through the host's memory, which is slower; an IOMMU that "
         "is on, or access control of PCIe, can be the cause";
}

}  // namespace heliograph
