#include "core/cuda/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/cuda/replay.hpp"
#include "core/throw_error.hpp"

namespace heliograph::cuda {
namespace {

constexpr std::size_t kStageBytes = std::size_t{1} << 18;
std::atomic<bool> abandoned{false};

}  // namespace

void abandon_devices(bool now) noexcept { abandoned = now; }
bool devices_abandoned() noexcept { return abandoned; }
void refuse_abandoned_devices() {
  if (!abandoned) return;
  throw Error(
      ErrorCode::resource,
      "CUDA device: messages of a failed run are still in flight on it; this process must end");
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next check would report again otherwise
  throw_error(ErrorCode::resource, "CUDA device: {}: {}", what, cudaGetErrorString(status));
}

Queue::Queue(int device) : device_(device) {
  refuse_abandoned_devices();
  check(cudaSetDevice(device), "selecting the device");
  check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
        "reading the number of its multiprocessors");
  check(cudaStreamCreateWithFlags(&bare_stream_, cudaStreamNonBlocking), "making a stream");
}

Queue::~Queue() { release(); }

void Queue::release() noexcept {
  if (devices_abandoned()) return;
  // Errors are ignored: an earlier call has reported them, or no caller is left to tell.
  cudaStreamSynchronize(bare_stream_);
  replay_.reset();
  for (Stage& stage : stages_) {
    if (stage.read != nullptr) cudaEventDestroy(stage.read);
    if (stage.memory != nullptr) cudaFreeHost(stage.memory);
  }
  cudaStreamDestroy(bare_stream_);
}

void Queue::begin_repeated() {
  complete_stream();
  if (replay_ == nullptr) replay_ = std::make_unique<Replay>(bare_stream_, device_);
  replay_->begin();
  repeats_ = true;
}

void Queue::end_repeated() noexcept {
  stream();
  repeats_ = false;
}

bool Queue::can_record() const { return replay_ != nullptr && replay_->can_record(); }

void Queue::record() {
  finish();
  if (replay_ != nullptr) replay_->record();
}

cudaStream_t Queue::stream() noexcept {
  if (repeats_ && !replay_->empty()) {
    try {
      replay_->flush();
    } catch (...) {
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
  }
  return bare_stream_;
}

void Queue::throw_failure() {
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

cudaStream_t Queue::complete_stream() {
  const cudaStream_t whole = stream();
  throw_failure();
  return whole;
}

void Queue::ask(const KernelWork& work) {
  throw_failure();
  if (repeats_) return replay_->add(work);
  check(work.start(work.function, work.grid, work.arguments.data(), bare_stream_), work.name);
}

void Queue::ask(const LibraryWork& work) {
  throw_failure();
  if (repeats_) return replay_->add(work);
  work.ask(work.library, work.call.data(), bare_stream_);
}

void Queue::finish() {
  refuse_abandoned_devices();
  // Waits even if some work could not be put on the stream, as the caller then frees its memory.
  const cudaStream_t whole = stream();
  const cudaError_t status =
      await([&] { return cudaStreamQuery(whole); }, [&] { return cudaStreamSynchronize(whole); });
  look_ = nullptr;
  throw_failure();
  check(status, "waiting for it");
}

template <class Done, class Wait>
cudaError_t Queue::await(Done done, Wait wait) {
  if (look_ == nullptr) return wait();
  try {
    for (bool first = true;; first = false) {
      const cudaError_t status = done();
      if (status != cudaErrorNotReady) return status;
      (*look_)(first);
    }
  } catch (...) {
    look_ = nullptr;
    if (!devices_abandoned()) wait();  // The caller frees memory that the work uses.
    throw;
  }
}

void Queue::mark(cudaEvent_t event) {
  check(cudaEventRecord(event, complete_stream()), "recording an event");
}

void Queue::wait_for(cudaEvent_t event, const Look& look) {
  check(cudaStreamWaitEvent(complete_stream(), event, 0), "waiting for an event");
  look_ = &look;
}

// Copies through stages of its own, since whether an asynchronous copy has read the caller's memory
// when it returns depends on how that was allocated.
void Queue::upload(void* to, const void* host, std::size_t bytes) {
  const cudaStream_t stream = complete_stream();
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
    check(await([&] { return cudaEventQuery(stage.read); },
                [&] { return cudaEventSynchronize(stage.read); }),
          "waiting for an upload");
    const std::size_t piece = std::min(bytes, kStageBytes);
    std::memcpy(stage.memory, source, piece);
    check(cudaMemcpyAsync(target, stage.memory, piece, cudaMemcpyHostToDevice, stream),
          "copying to it");
    check(cudaEventRecord(stage.read, stream), "recording an event");
    target += piece;
    source += piece;
    bytes -= piece;
  }
}

void Queue::upload_page_locked(void* to, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, complete_stream()),
        "copying to it");
}

void Queue::download(void* host, const void* from, std::size_t bytes) {
  if (look_ != nullptr) finish();  // Copying to ordinary memory waits, and nothing could end that.
  if (bytes > 0) {
    check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, complete_stream()),
          "copying from it");
  }
  finish();
}

void Queue::clear(void* at, std::size_t bytes) {
  throw_failure();
  if (bytes == 0) return;
  if (repeats_) return replay_->add(at, bytes);
  check(cudaMemsetAsync(at, 0, bytes, bare_stream_), "clearing memory");
}

}  // namespace heliograph::cuda
