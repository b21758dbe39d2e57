#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/nccl/link.hpp"

struct ncclComm;

namespace heliograph {

/// Throws Error(resource) unless the call has succeeded.
void require_cuda(cudaError_t status, const char* what);

/// What the threads of a link share.
struct NcclLink::Shared {
  /// A group of messages, and the events at its ends. They are made once, since making one may wait
  /// for devices.
  struct Group {
    std::vector<SendMessage> sends;
    std::vector<RecvMessage> receives;
    std::uint64_t turn = 0;
    bool ordered = false;  ///< Whether it begins behind `before`.
    cudaEvent_t before = nullptr, after = nullptr;
  };

  Shared(int number, std::shared_ptr<Turns> of_rank) : device(number), turns(std::move(of_rank)) {}

  /// The communicator, for as long as `calls` is held.
  ncclComm* comm_for_call() const;
  /// Whether NCCL has accepted the last request. `calls` must be held.
  bool accepted();
  /// The place of the `number`-th group, counted from 1.
  Group& group(std::uint64_t number) { return groups[(number - 1) % groups.size()]; }
  void abort_and_drain();
  /// Launches one group after the other until `ends`, or until one fails.
  void launch_groups() noexcept;
  void launch(Group& group);

  const int device;
  const std::shared_ptr<Turns> turns;
  std::mutex calls;  ///< Held during NCCL calls that use the members below.
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::map<std::byte*, void*> registered;  ///< NCCL's handle of each piece of memory.
  std::atomic<bool> given_up{false};

  /// Used in turn: by the rank's thread up to `asked` and after `launched`, by the launching one
  /// between.
  std::vector<Group> groups;
  std::atomic<std::uint64_t> launched{0};
  std::atomic<bool> failed{false};  ///< Whether `failure` is set.

  std::mutex mutex;  ///< Guards the members below.
  std::condition_variable changed;
  std::uint64_t asked = 0;
  std::exception_ptr failure;  ///< Of a launch.
  bool ends = false;
  bool launches = false;  ///< Whether the launching thread runs.
  bool abort_returned = false;
  bool left_behind = false;
};

}  // namespace heliograph
