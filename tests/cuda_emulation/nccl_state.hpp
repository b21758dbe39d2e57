#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nccl_emulation.hpp"
#include "nccl_messages.hpp"
#include "streams.hpp"

// What the calls of the emulated NCCL share.

struct ncclComm {
  std::shared_ptr<heliograph::nccl_emulation::World> world;
  int rank = 0;
  int device = 0;
  int groups = 0;
  int polls_left = 0;  ///< Until what was asked last is taken up.
  bool asked = false;  ///< Something was, and is not taken up.
  bool ended = false;
  ncclResult_t error = ncclSuccess;
  std::function<void()> take_up;
};

namespace heliograph::nccl_emulation {

struct OrderedFailure {
  int at_call;
  ncclResult_t error;
};

struct Registration {
  ncclComm_t comm;
  std::byte* begin;
  std::size_t bytes;
  bool live = true;
};

struct Emulation {
  std::mutex lock;  // Inside of the runtime's.
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<World>> worlds;
  std::vector<std::unique_ptr<ncclComm>> comms;
  std::vector<std::unique_ptr<Group>> groups;
  std::map<int, std::vector<Call>> calls;
  std::map<std::pair<int, std::string>, int> counts;
  std::map<std::pair<int, std::string>, OrderedFailure> failures;
  std::map<int, OrderedFailure> group_failures;
  std::map<std::byte*, std::size_t> allocations;
  std::vector<std::unique_ptr<Registration>> registrations;
  std::vector<std::string> violations;
  int polls = 0;
  int ids = 0;
  bool aborts_hang = false;
};

Emulation& emulation();

/// Writes down what must not be done.
ncclResult_t violation(const std::string& what);

/// Counts and records a call; what it is to fail with.
ncclResult_t record(int rank, const Call& call);

/// Whether `comm` may be used for this call.
ncclResult_t check(ncclComm_t comm, const std::string& function);

/// Has `take_up` happen after so many questions.
ncclResult_t ask(ncclComm_t comm, std::function<void()> take_up);

/// With the runtime's lock, which streams need, and then the emulation's own.
template <class Body>
ncclResult_t locked_call(const char* function, Body body) {
  ncclResult_t result = ncclInternalError;
  const cudaError_t status = cuda_emulation::api_call(function, [&] {
    const std::lock_guard lock(emulation().lock);
    result = body();
    return cudaSuccess;
  });
  return status == cudaSuccess ? result : ncclUnhandledCudaError;
}

/// Whether buffers of a communicator are registered.
bool any_registered(ncclComm_t comm);
/// Where a communicator has registered buffers, all messages lie in such.
bool fits_registrations(ncclComm_t comm, const std::byte* data, std::size_t bytes);

}  // namespace heliograph::nccl_emulation
