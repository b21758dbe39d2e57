#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace heliograph::cuda_emulation {

struct Stream;

/// The device memory that a piece of work may touch.
enum class Access : std::uint8_t { none, own_device, all_devices };

/// A piece of work that waits in a stream. Returns what went wrong, or an empty string.
struct Work {
  Access access = Access::none;
  std::function<std::string()> run;
  std::function<bool()> ready;    ///< If set: the stream stays here as long as it is false.
  std::shared_ptr<Stream> other;  ///< If set: instead, wait until this stream has come to `until`.
  std::int64_t until = 0;
};

struct Graph;

struct Stream {
  int device = 0;
  std::shared_ptr<Graph> capture;  ///< If set: takes what the stream is asked for.
  bool capture_broken = false;
  std::deque<Work> work;
  std::map<const void*, unsigned> grids;  ///< By kernel: those that ran.
  std::int64_t issued = 0;
  std::int64_t done = 0;
};

/// The stream behind a handle; null if there is none. With the runtime's lock held, as below.
std::shared_ptr<Stream> find_stream(cudaStream_t handle);
void enqueue(Stream& stream, Access access, std::function<std::string()> run);
/// Adds to the graph that `stream` captures, behind what it captured before.
void capture(Stream& stream, Access access, std::function<std::string()> run);

/// The runtime's lock, the count of calls, failures that were ordered, and the error that stays:
/// `body` runs with the lock held, if the call is not to fail.
cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body);

/// Whether [pointer, pointer + bytes) is device memory.
bool on_device(const void* pointer, std::size_t bytes);

}  // namespace heliograph::cuda_emulation
