// Memory of NCCL, and buffers that are registered with it.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "nccl_state.hpp"

namespace heliograph::nccl_emulation {
namespace {

constexpr auto kSlowCall = std::chrono::milliseconds(20);

bool lies_in(const std::byte* data, std::size_t bytes, const std::byte* begin, std::size_t size) {
  return data >= begin && data + bytes <= begin + size;
}

}  // namespace

bool may_wait(const std::string& function) {
  const int device = cuda_emulation::current_device;
  for (const auto& group : emulation().groups) {
    const auto& comms = group->comm->world->comms;
    // A failure ends all messages of the world.
    const bool ended = std::any_of(comms.begin(), comms.end(),
                                   [](const auto& comm) { return comm.second->ended; });
    const bool moved = std::all_of(group->halves.begin(), group->halves.end(),
                                   [](const Half& half) { return half.end->copied; });
    if (ended || moved || !cuda_emulation::reaches(device, group->comm->device)) continue;
    violation(function + " while messages of rank " + std::to_string(group->comm->rank) +
              " are in flight");
    return false;
  }
  return true;
}

bool require_no_messages(const std::string& function) {
  const std::lock_guard lock(emulation().lock);
  return may_wait(function);
}

void call_may_wait(const std::string& function) {
  if (!require_no_messages(function)) return;
  {
    const std::lock_guard lock(emulation().lock);
    const auto& groups = emulation().groups;
    const bool over = std::all_of(groups.begin(), groups.end(),
                                  [](const auto& group) { return group->comm->ended; });
    if (over || cuda_emulation::current_device != emulation().slow_device) return;
  }
  std::this_thread::sleep_for(kSlowCall);
  require_no_messages(function);
}

bool any_registered(ncclComm_t comm) {
  for (const auto& r : emulation().registrations) {
    if (r->live && r->comm == comm) return true;
  }
  return false;
}

bool fits_registrations(ncclComm_t comm, const std::byte* data, std::size_t bytes) {
  for (const auto& r : emulation().registrations) {
    if (r->live && r->comm == comm && lies_in(data, bytes, r->begin, r->bytes)) return true;
  }
  return !any_registered(comm);
}

}  // namespace heliograph::nccl_emulation

using namespace heliograph::nccl_emulation;
using heliograph::cuda_emulation::DeviceMemory;
using heliograph::cuda_emulation::runtime;

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return locked_call("ncclMemAlloc", [&] {
    if (!may_wait("ncclMemAlloc")) return ncclInvalidUsage;
    int device = -1;
    cudaGetDevice(&device);
    *pointer = runtime().memory.take(bytes, device, DeviceMemory::Kind::plain);
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
    DeviceMemory& memory = runtime().memory;
    memory.retire(pointer);
    const std::string wrong = memory.give_back(pointer);
    return wrong.empty() ? ncclSuccess : violation("ncclMemFree: " + wrong);
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return comm_call("ncclCommRegister", comm, bytes, [&] {
    Emulation& e = emulation();
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
  return comm_call("ncclCommDeregister", comm, 0, [&] {
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
