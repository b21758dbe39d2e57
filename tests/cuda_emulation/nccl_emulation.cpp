#include "nccl_emulation.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "runtime.hpp"
#include "streams.hpp"

namespace heliograph::nccl_emulation {
namespace {

using cuda_emulation::Access;
using cuda_emulation::Stream;

struct Group;

/// One end of a message.
struct End {
  Group* group;
  std::byte* data;  // Only read when sending.
  std::size_t bytes;
  bool copied = false;
};

struct Message {
  std::shared_ptr<End> send, receive;
};

/// Between two ranks, in one direction: ends in the order of their calls.
struct Lane {
  std::deque<std::shared_ptr<End>> sends, receives;  // Never shrink: an end keeps its number.
};

struct World {
  int ranks = 0;
  std::map<int, ncclComm_t> comms;
  std::map<std::pair<int, int>, Lane> lanes;
};

}  // namespace
}  // namespace heliograph::nccl_emulation

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
namespace {

struct Half {
  bool sending;
  int peer;
  std::size_t number;  // In its lane.
  std::shared_ptr<End> end;
};

struct Group {
  ncclComm_t comm = nullptr;
  bool started = false;  // The stream has come to it.
  bool moved = false;
  std::vector<Half> halves;
};

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

Emulation& emulation() {
  static auto* const the = new Emulation;
  return *the;
}

thread_local int depth = 0;
thread_local std::unique_ptr<Group> open_group;
thread_local cudaStream_t open_stream = nullptr;

ncclResult_t violation(const std::string& what) {
  emulation().violations.push_back(what);
  return ncclInvalidUsage;
}

/// Counts and records a call; what it is to fail with.
ncclResult_t record(int rank, const Call& call) {
  Emulation& e = emulation();
  e.calls[rank].push_back(call);
  const int count = ++e.counts[{rank, call.function}];
  const auto failure = e.failures.find({rank, call.function});
  if (failure == e.failures.end() || failure->second.at_call != count) return ncclSuccess;
  const ncclResult_t error = failure->second.error;
  e.failures.erase(failure);
  return error;
}

/// Whether `comm` may be used for this call.
ncclResult_t check(ncclComm_t comm, const std::string& function) {
  if (comm == nullptr || comm->ended) return violation(function + " after the end");
  const std::string rank = " by rank " + std::to_string(comm->rank);
  if (comm->asked) return violation(function + rank + " while something else is taken up");
  int device = -1;
  cudaGetDevice(&device);
  if (device != comm->device) return violation(function + rank + " on another device");
  return ncclSuccess;
}

/// Has `take_up` happen after so many questions.
ncclResult_t ask(ncclComm_t comm, std::function<void()> take_up) {
  comm->polls_left = emulation().polls;
  comm->asked = true;
  comm->take_up = std::move(take_up);
  if (comm->polls_left > 0) return ncclInProgress;
  comm->asked = false;
  comm->take_up();
  return ncclSuccess;
}

Lane& lane_of(const Group& group, const Half& half) {
  World& world = *group.comm->world;
  const int me = group.comm->rank;
  return half.sending ? world.lanes[{me, half.peer}] : world.lanes[{half.peer, me}];
}

/// The other end, if its stream has come to it.
std::shared_ptr<End> started_partner(const Group& group, const Half& half) {
  const Lane& lane = lane_of(group, half);
  const auto& others = half.sending ? lane.receives : lane.sends;
  if (half.number >= others.size()) return nullptr;
  const std::shared_ptr<End>& other = others[half.number];
  const bool meets =
      other->group->started && other->bytes == half.end->bytes && !other->group->comm->ended;
  return meets || other->copied ? other : nullptr;
}

bool ready(Group& group) {
  const std::lock_guard lock(emulation().lock);
  if (group.comm->ended) return true;
  group.started = true;
  for (const Half& half : group.halves) {
    if (!half.end->copied && started_partner(group, half) == nullptr) return false;
  }
  return true;
}

/// Moves what has not been moved by the other end.
std::string run(Group& group) {
  const std::lock_guard lock(emulation().lock);
  if (group.comm->ended) return {};
  for (const Half& half : group.halves) {
    if (half.end->copied) continue;
    const std::shared_ptr<End> other = started_partner(group, half);
    End& to = half.sending ? *other : *half.end;
    const End& from = half.sending ? *half.end : *other;
    std::memcpy(to.data, from.data, from.bytes);
    half.end->copied = true;
    other->copied = true;
  }
  group.moved = true;
  return {};
}

void enqueue(Group* group, cudaStream_t handle) {
  const std::shared_ptr<Stream> stream = cuda_emulation::find_stream(handle);
  if (stream == nullptr) {
    violation("a group on a stream that is none");
    return;
  }
  cuda_emulation::Work work;
  work.access = Access::all_devices;
  work.ready = [group] { return ready(*group); };
  work.run = [group] { return run(*group); };
  stream->work.push_back(std::move(work));
  ++stream->issued;
}

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

bool lies_in(const std::byte* data, std::size_t bytes, const std::byte* begin, std::size_t size) {
  return data >= begin && data + bytes <= begin + size;
}

bool any_registered(ncclComm_t comm) {
  for (const auto& r : emulation().registrations) {
    if (r->live && r->comm == comm) return true;
  }
  return false;
}

/// Where a communicator has registered buffers, all messages lie in such.
bool fits_registrations(ncclComm_t comm, const std::byte* data, std::size_t bytes) {
  for (const auto& r : emulation().registrations) {
    if (r->live && r->comm == comm && lies_in(data, bytes, r->begin, r->bytes)) return true;
  }
  return !any_registered(comm);
}

/// Whether a call may wait for all that the thread's device does.
bool may_wait(const char* function) {
  int device = -1;
  cudaGetDevice(&device);
  for (const auto& group : emulation().groups) {
    if (group->moved || group->comm->ended || group->comm->device != device) continue;
    violation(std::string(function) + " while messages are in flight");
    return false;
  }
  return true;
}

ncclResult_t add_half(const char* function, bool sending, std::byte* data, std::size_t bytes,
                      ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return locked_call(function, [&] {
    if (const ncclResult_t wrong = check(comm, function); wrong != ncclSuccess) return wrong;
    if (open_group == nullptr) return violation(std::string(function) + " outside of a group");
    if (open_group->comm == nullptr) {
      open_group->comm = comm;
      open_stream = stream;
      (void)record(comm->rank, {"ncclGroupStart", -1, 0});
    }
    if (open_group->comm != comm || open_stream != stream) {
      return violation("a group of several communicators or streams");
    }
    if (const ncclResult_t error = record(comm->rank, {function, peer, bytes});
        error != ncclSuccess) {
      return error;
    }
    if (bytes == 0 || type != ncclUint8 || peer < 0 || peer >= comm->world->ranks ||
        peer == comm->rank || !cuda_emulation::on_device(data, bytes)) {
      return violation(std::string(function) + " of what cannot be moved");
    }
    if (!fits_registrations(comm, data, bytes)) {
      return violation(std::string(function) + " of what is not registered");
    }
    auto end = std::make_shared<End>(End{open_group.get(), data, bytes});
    open_group->halves.push_back({sending, peer, 0, std::move(end)});
    return ncclSuccess;
  });
}

/// Puts a group's messages into their lanes, and the group on its stream.
void launch(Group* group, cudaStream_t stream) {
  Emulation& e = emulation();
  ncclComm_t comm = group->comm;
  for (Half& half : group->halves) {
    Lane& lane = lane_of(*group, half);
    auto& ends = half.sending ? lane.sends : lane.receives;
    half.number = ends.size();
    ends.push_back(half.end);
  }
  ++comm->groups;
  const auto failure = e.group_failures.find(comm->rank);
  if (failure != e.group_failures.end() && comm->groups >= failure->second.at_call) {
    comm->error = failure->second.error;
  }
  enqueue(group, stream);
}

}  // namespace

std::vector<Call> calls_of(int rank) {
  const std::lock_guard lock(emulation().lock);
  return emulation().calls[rank];
}

std::vector<std::string> violations() {
  const std::lock_guard lock(emulation().lock);
  return emulation().violations;
}

void set_polls(int polls) {
  const std::lock_guard lock(emulation().lock);
  emulation().polls = polls;
}

void fail_call(int rank, const std::string& function, int n, ncclResult_t error) {
  Emulation& e = emulation();
  const std::lock_guard lock(e.lock);
  e.failures[{rank, function}] = {e.counts[{rank, function}] + n, error};
}

void fail_group(int rank, int n, ncclResult_t error) {
  const std::lock_guard lock(emulation().lock);
  emulation().group_failures[rank] = {n, error};
}

void hang_aborts(bool hang) {
  {
    const std::lock_guard lock(emulation().lock);
    emulation().aborts_hang = hang;
  }
  emulation().changed.notify_all();
}

void reset() {
  Emulation& e = emulation();
  const std::lock_guard lock(e.lock);
  e.calls.clear();
  e.counts.clear();
  e.failures.clear();
  e.group_failures.clear();
  e.violations.clear();
  e.polls = 0;
  // Worlds, communicators and groups stay: work of streams may still name them.
}

}  // namespace heliograph::nccl_emulation

namespace {
using namespace heliograph::nccl_emulation;
}

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Emulation& e = emulation();
  const std::lock_guard lock(e.lock);
  std::memset(id, 0, sizeof(*id));
  const std::string name = "run " + std::to_string(++e.ids);
  name.copy(id->internal, sizeof(id->internal) - 1);
  e.worlds[name] = std::make_shared<World>();
  return record(0, {"ncclGetUniqueId", -1, 0});
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return locked_call("ncclCommInitRankConfig", [&] {
    Emulation& e = emulation();
    if (const ncclResult_t error = record(rank, {"ncclCommInitRankConfig", -1, 0});
        error != ncclSuccess) {
      return error;
    }
    const auto found = e.worlds.find(id.internal);
    if (found == e.worlds.end() || config->blocking != 0) {
      return violation("ncclCommInitRankConfig with an id of no run, or blocking");
    }
    World& world = *found->second;
    world.ranks = ranks;
    auto made = std::make_unique<ncclComm>();
    made->world = found->second;
    made->rank = rank;
    cudaGetDevice(&made->device);
    for (const auto& [other, its] : world.comms) {
      if (its->device == made->device) return ncclInvalidUsage;
    }
    made->asked = true;
    made->polls_left = e.polls;
    made->take_up = [] {};
    *comm = made.get();
    world.comms[rank] = *comm;
    e.comms.push_back(std::move(made));
    return ncclInProgress;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return locked_call("ncclCommGetAsyncError", [&] {
    if (comm == nullptr || comm->ended) return violation("ncclCommGetAsyncError after the end");
    const bool all_here = static_cast<int>(comm->world->comms.size()) == comm->world->ranks;
    if (comm->asked && all_here && comm->polls_left-- <= 0) {
      comm->asked = false;
      comm->take_up();
    }
    *state = comm->error != ncclSuccess ? comm->error : comm->asked ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  const std::lock_guard lock(emulation().lock);
  if (++depth > 1) return violation("a group inside of a group");
  open_group = std::make_unique<Group>();
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_half("ncclSend", true, static_cast<std::byte*>(const_cast<void*>(buffer)), count, type,
                  peer, comm, stream);
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_half("ncclRecv", false, static_cast<std::byte*>(buffer), count, type, peer, comm,
                  stream);
}

ncclResult_t ncclGroupEnd() {
  return locked_call("ncclGroupEnd", [&] {
    Emulation& e = emulation();
    if (--depth != 0) return violation("ncclGroupEnd of no group");
    if (open_group->comm == nullptr) return ncclSuccess;
    ncclComm_t comm = open_group->comm;
    if (const ncclResult_t error = record(comm->rank, {"ncclGroupEnd", -1, 0});
        error != ncclSuccess) {
      return error;
    }
    Group* group = open_group.get();
    e.groups.push_back(std::move(open_group));
    return ask(comm, [group, stream = open_stream] { launch(group, stream); });
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return locked_call("ncclCommFinalize", [&] {
    if (const ncclResult_t wrong = check(comm, "ncclCommFinalize"); wrong != ncclSuccess) {
      return wrong;
    }
    if (const ncclResult_t error = record(comm->rank, {"ncclCommFinalize", -1, 0});
        error != ncclSuccess) {
      return error;
    }
    return ask(comm, [] {});
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return locked_call("ncclCommDestroy", [&] {
    if (const ncclResult_t wrong = check(comm, "ncclCommDestroy"); wrong != ncclSuccess) {
      return wrong;
    }
    if (any_registered(comm)) violation("ncclCommDestroy with registered buffers");
    comm->ended = true;
    return record(comm->rank, {"ncclCommDestroy", -1, 0});
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Emulation& e = emulation();
  std::unique_lock lock(e.lock);
  if (comm == nullptr || comm->ended) return violation("ncclCommAbort after the end");
  (void)record(comm->rank, {"ncclCommAbort", -1, 0});
  e.changed.wait(lock, [&] { return !e.aborts_hang; });
  comm->ended = true;
  for (const auto& r : e.registrations) {
    if (r->comm == comm) r->live = false;
  }
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return locked_call("ncclMemAlloc", [&] {
    if (!may_wait("ncclMemAlloc")) return ncclInvalidUsage;
    int device = -1;
    cudaGetDevice(&device);
    *pointer = heliograph::cuda_emulation::runtime().memory.take(bytes, device);
    if (*pointer == nullptr) return ncclUnhandledCudaError;
    emulation().allocations.emplace(static_cast<std::byte*>(*pointer), bytes);
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* pointer) {
  return locked_call("ncclMemFree", [&] {
    Emulation& e = emulation();
    auto* begin = static_cast<std::byte*>(pointer);
    const auto found = e.allocations.find(begin);
    if (found == e.allocations.end()) return violation("ncclMemFree of what it did not give");
    if (!may_wait("ncclMemFree")) return ncclInvalidUsage;
    for (const auto& r : e.registrations) {
      if (r->live && lies_in(r->begin, r->bytes, begin, found->second)) {
        return violation("ncclMemFree of what is registered");
      }
    }
    e.allocations.erase(found);
    auto& memory = heliograph::cuda_emulation::runtime().memory;
    memory.retire(pointer);
    const std::string wrong = memory.give_back(pointer);
    return wrong.empty() ? ncclSuccess : violation("ncclMemFree: " + wrong);
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return locked_call("ncclCommRegister", [&] {
    Emulation& e = emulation();
    if (const ncclResult_t wrong = check(comm, "ncclCommRegister"); wrong != ncclSuccess) {
      return wrong;
    }
    if (const ncclResult_t error = record(comm->rank, {"ncclCommRegister", -1, bytes});
        error != ncclSuccess) {
      return error;
    }
    if (!may_wait("ncclCommRegister")) return ncclInvalidUsage;
    auto* begin = static_cast<std::byte*>(buffer);
    const auto next = e.allocations.upper_bound(begin);
    if (next == e.allocations.begin() || bytes == 0 ||
        !lies_in(begin, bytes, std::prev(next)->first, std::prev(next)->second)) {
      return violation("ncclCommRegister of what ncclMemAlloc did not give");
    }
    e.registrations.push_back(std::make_unique<Registration>(Registration{comm, begin, bytes}));
    *handle = e.registrations.back().get();
    return ask(comm, [] {});
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return locked_call("ncclCommDeregister", [&] {
    if (const ncclResult_t wrong = check(comm, "ncclCommDeregister"); wrong != ncclSuccess) {
      return wrong;
    }
    if (const ncclResult_t error = record(comm->rank, {"ncclCommDeregister", -1, 0});
        error != ncclSuccess) {
      return error;
    }
    if (!may_wait("ncclCommDeregister")) return ncclInvalidUsage;
    for (const auto& r : emulation().registrations) {
      if (r.get() != handle || !r->live || r->comm != comm) continue;
      r->live = false;
      return ask(comm, [] {});
    }
    return violation("ncclCommDeregister of what is not registered");
  });
}

}  // extern "C"
