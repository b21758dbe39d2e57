#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nccl_emulation.hpp"
#include "runtime.hpp"

// Declarations that the calls of the emulated NCCL share.

namespace heliograph::nccl_emulation {

struct Group;

/// One end of a message.
struct End {
  Group* group;
  std::byte* data;  ///< Only read if this end sends.
  std::size_t bytes;
  bool copied = false;
};

/// The message ends between two ranks in one direction, in the order of their calls.
struct MessageQueue {
  /// Never shrink, so that an end keeps its number.
  std::deque<std::shared_ptr<End>> sends, receives;
};

struct World {
  int ranks = 0;
  std::map<int, ncclComm_t> comms;
  std::map<std::pair<int, int>, MessageQueue> queues;
};

struct Half {
  bool sending;
  int peer;
  std::size_t number;  ///< The number of the end in its queue.
  std::shared_ptr<End> end;
};

/// A group of messages. It waits in its stream until the stream of the other end of each message
/// has reached its group too.
struct Group {
  ncclComm_t comm = nullptr;
  bool started = false;  ///< Whether the stream has reached the group.
  bool moved = false;
  std::vector<Half> halves;
};

}  // namespace heliograph::nccl_emulation

struct ncclComm {
  std::shared_ptr<heliograph::nccl_emulation::World> world;
  int rank = 0;
  int device = 0;
  int groups = 0;
  int polls_left = 0;  ///< Polls of the state until the last request takes effect.
  bool asked = false;  ///< Whether a request has not taken effect yet.
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
  std::mutex lock;  // Taken after the runtime's lock.
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
  int slow_device = -1;
  bool aborts_hang = false;
  int aborting = 0;  ///< Calls of ncclCommAbort that have not returned.
};

Emulation& emulation();

/// Records a violation, with this text.
ncclResult_t violation(const std::string& what);

/// Counts and records a call. Returns the error with which it must fail, or ncclSuccess.
ncclResult_t record(int rank, const Call& call);

/// Records a request: `take_up` is called after as many polls of the state as set_polls() says.
ncclResult_t ask(ncclComm_t comm, std::function<void()> take_up);

/// Puts the messages of a group into their queues, and enqueues the group on its stream.
void launch(Group* group, cudaStream_t stream);

/// Runs `body` with the runtime's lock held, which streams need, and the lock of this emulation.
ncclResult_t locked_call(const char* function, const std::function<ncclResult_t()>& body);
/// Does the same for a call that uses a communicator, if it may be used and the call need not fail.
ncclResult_t comm_call(const char* function, ncclComm_t comm, std::size_t bytes,
                       const std::function<ncclResult_t()>& body);
/// Returns ncclSuccess if `comm` may be used for this call.
ncclResult_t check(ncclComm_t comm, const std::string& function);

/// Whether no message is in flight on the thread's device and those that it reaches. If one is, a
/// call that may wait for all work of these devices is a violation, which this records.
bool may_wait(const std::string& function);
/// Does the same for callers that do not hold the lock of this emulation.
bool require_no_messages(const std::string& function);
/// Does the same at the beginning of a call, and at its end if the call is slow. The caller must
/// not hold the runtime's lock.
void call_may_wait(const std::string& function);

/// Whether buffers of a communicator are registered.
bool any_registered(ncclComm_t comm);
/// Whether a message lies in a registered buffer, if the communicator has any.
bool fits_registrations(ncclComm_t comm, const std::byte* data, std::size_t bytes);

}  // namespace heliograph::nccl_emulation
