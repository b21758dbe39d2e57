// The memory pools of devices, and which devices may use them.

#include <map>
#include <set>

#include "runtime.hpp"

/// Each device has its default one; others are not emulated.
struct CUmemPoolHandle_st {
  int device = 0;
  std::set<int> users;  ///< Other devices that were given access.
};

namespace heliograph::cuda_emulation {
namespace {

bool reach_each_other = true;

cudaMemPool_t pool_of(int device) {
  static auto* const pools = new std::map<int, CUmemPoolHandle_st>;
  CUmemPoolHandle_st& pool = (*pools)[device];
  pool.device = device;
  return &pool;
}

bool is_pool(cudaMemPool_t pool) {
  for (int device = 0; device < device_count(); ++device) {
    if (pool == pool_of(device)) return true;
  }
  return false;
}

bool is_device(const cudaMemLocation& location) {
  return location.type == cudaMemLocationTypeDevice && device_exists(location.id);
}

}  // namespace

void let_devices_reach_each_other(bool reach) {
  const std::lock_guard guard(runtime().lock);
  reach_each_other = reach;
  for (int device = 0; device < device_count(); ++device) pool_of(device)->users.clear();
}

bool reaches(int device, int other) { return device == other || reach_each_other; }

bool pool_is_open(const void* pointer, int device) {
  const int owner = runtime().memory.pool_of(pointer);
  return owner == DeviceMemory::kNone || owner == device || pool_of(owner)->users.contains(device);
}

}  // namespace heliograph::cuda_emulation

using namespace heliograph::cuda_emulation;

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api_call("cudaDeviceGetDefaultMemPool", [&] {
    if (!device_exists(device)) return cudaErrorInvalidDevice;
    *pool = pool_of(device);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void* value) {
  return api_call("cudaMemPoolSetAttribute", [&] {
    return is_pool(pool) && value != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t /*kept*/) {
  return api_call("cudaMemPoolTrimTo",
                  [&] { return is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 std::size_t count) {
  return api_call("cudaMemPoolSetAccess", [&] {
    if (!is_pool(pool)) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      // A device that does not reach the memory cannot be given access to it.
      if (!is_device(access[i].location) || !reach_each_other ||
          access[i].flags != cudaMemAccessFlagsProtReadWrite) {
        return cudaErrorInvalidValue;
      }
      pool->users.insert(access[i].location.id);
    }
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* location) {
  return api_call("cudaMemPoolGetAccess", [&] {
    if (!is_pool(pool) || !is_device(*location)) return cudaErrorInvalidValue;
    const bool uses = location->id == pool->device || pool->users.contains(location->id);
    *flags = uses ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api_call("cudaDeviceCanAccessPeer", [&] {
    if (!device_exists(device) || !device_exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && reach_each_other ? 1 : 0;
    return cudaSuccess;
  });
}

}  // extern "C"
