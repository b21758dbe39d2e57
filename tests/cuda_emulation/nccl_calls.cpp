// Communicators, groups and their messages.

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nccl_state.hpp"

namespace heliograph::nccl_emulation {
namespace {

thread_local int depth = 0;
thread_local std::unique_ptr<Group> open_group;
thread_local cudaStream_t open_stream = nullptr;

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
    const ncclResult_t error = record(comm->rank, {function, peer, bytes});
    if (error != ncclSuccess) return error;
    if (bytes == 0 || type != ncclUint8 || peer < 0 || peer >= comm->world->ranks ||
        !cuda_emulation::on_device(data, bytes)) {
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

/// Does the work of a device, as far as it has not to wait for other threads. Whether none is left.
bool is_idle(int device) {
  const std::lock_guard lock(cuda_emulation::runtime().lock);
  bool idle = true;
  for (const auto& [handle, stream] : cuda_emulation::runtime().streams) {
    if (stream->device == device) idle = cuda_emulation::advance(*stream, stream->issued) && idle;
  }
  return idle;
}

}  // namespace
}  // namespace heliograph::nccl_emulation

using namespace heliograph::nccl_emulation;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  static const std::map<ncclResult_t, const char*> texts = {
      {ncclSuccess, "no error"},
      {ncclUnhandledCudaError, "unhandled cuda error"},
      {ncclSystemError, "unhandled system error"},
      {ncclInternalError, "internal error"},
      {ncclInvalidArgument, "invalid argument"},
      {ncclInvalidUsage, "invalid usage"},
      {ncclInProgress, "NCCL operation in progress"}};
  return texts.at(result);
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
    const ncclResult_t error = record(rank, {"ncclCommInitRankConfig", -1, 0});
    if (error != ncclSuccess) return error;
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
    const ncclResult_t error = record(comm->rank, {"ncclGroupEnd", -1, 0});
    if (error != ncclSuccess) return error;
    Group* group = open_group.get();
    e.groups.push_back(std::move(open_group));
    return ask(comm, [group, stream = open_stream] { launch(group, stream); });
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm_call("ncclCommFinalize", comm, 0, [&] { return ask(comm, [] {}); });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return locked_call("ncclCommDestroy", [&] {
    const ncclResult_t wrong = check(comm, "ncclCommDestroy");
    if (wrong != ncclSuccess) return wrong;
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
  ++e.aborting;
  e.changed.wait(lock, [&] { return !e.aborts_hang; });
  comm->ended = true;
  lock.unlock();
  while (!is_idle(comm->device)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  lock.lock();
  --e.aborting;
  e.changed.notify_all();
  for (const auto& r : e.registrations) {
    if (r->comm == comm) r->live = false;
  }
  return ncclSuccess;
}
}  // extern "C"
