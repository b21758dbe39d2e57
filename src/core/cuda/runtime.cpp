#include "core/cuda/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "heliograph/error.hpp"

namespace heliograph::cuda {
namespace {

constexpr std::size_t kStageBytes = std::size_t{1} << 18;
std::atomic<bool> abandoned{false};

}  // namespace

void abandon_devices(bool now) noexcept { abandoned = now; }
bool devices_abandoned() noexcept { return abandoned; }
void refuse_abandoned_devices() {
  if (!abandoned) return;
  throw Error(ErrorCode::resource,
              "CUDA device: a run that failed has left its messages behind in it; this process "
              "must end");
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the next check would see it again
  throw Error(ErrorCode::resource,
              std::string("CUDA device: ") + what + ": " + cudaGetErrorString(status));
}

Queue::Queue(int device) : device_(device) {
  refuse_abandoned_devices();
  check(cudaSetDevice(device), "selecting the device");
  check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
        "asking for its multiprocessors");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Queue::~Queue() { release(); }

void Queue::release() noexcept {
  if (devices_abandoned()) return;
  // Whatever fails here has failed before, or nobody can be told any more.
  cudaStreamSynchronize(stream_);
  for (Stage& stage : stages_) {
    if (stage.read != nullptr) cudaEventDestroy(stage.read);
    if (stage.memory != nullptr) cudaFreeHost(stage.memory);
  }
  cudaStreamDestroy(stream_);
}

void Queue::finish() {
  refuse_abandoned_devices();
  check(cudaStreamSynchronize(stream_), "waiting for it");
}

// Through memory of our own: what CUDA has read of the caller's when an asynchronous copy returns
// depends on how that memory was allocated.
void Queue::upload(void* to, const void* host, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(host);
  while (bytes > 0) {
    Stage& stage = stages_[next_stage_];
    next_stage_ = (next_stage_ + 1) % stages_.size();
    if (stage.read == nullptr) {
      check(cudaEventCreateWithFlags(&stage.read, cudaEventDisableTiming), "making an event");
    }
    if (stage.memory == nullptr) {
      void* memory = nullptr;
      check(cudaMallocHost(&memory, kStageBytes), "allocating page-locked host memory");
      stage.memory = static_cast<std::byte*>(memory);
    }
    check(cudaEventSynchronize(stage.read), "waiting for an upload");
    const std::size_t piece = std::min(bytes, kStageBytes);
    std::memcpy(stage.memory, source, piece);
    check(cudaMemcpyAsync(target, stage.memory, piece, cudaMemcpyHostToDevice, stream_),
          "copying to it");
    check(cudaEventRecord(stage.read, stream_), "recording an event");
    target += piece;
    source += piece;
    bytes -= piece;
  }
}

void Queue::upload_page_locked(void* to, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_), "copying to it");
}

void Queue::download(void* host, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from it");
  }
  finish();
}

void Queue::clear(void* at, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(at, 0, bytes, stream_), "clearing memory");
}

}  // namespace heliograph::cuda
