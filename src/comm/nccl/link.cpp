#include "comm/nccl/link.hpp"

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "comm/nccl/link_state.hpp"
#include "comm/nccl/transport.hpp"
#include "comm/rest.hpp"
#include "core/cuda/captures.hpp"
#include "core/cuda/runtime.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

static_assert(sizeof(ncclUniqueId) == NcclLink::kIdBytes);

/// How often an abort asks whether a call of another thread has ended before it waits no longer.
constexpr int kCallPolls = 2000;
constexpr auto kPoll = std::chrono::microseconds(100);

/// Room for messages that nobody has announced.
constexpr std::size_t kFewestGroups = 8;

std::atomic<bool> abort_hangs{false};

/// Throws Error(resource) unless the call has succeeded or is in progress. `comm` may be null.
void require_nccl(ncclResult_t result, ncclComm_t comm, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string text = std::string("NCCL cannot ") + what + ": " + ncclGetErrorString(result);
  const char* last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  throw Error(ErrorCode::resource, text);
}

}  // namespace

void require_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw_error(ErrorCode::resource, "--transport nccl: CUDA cannot {}: {}", what,
              cudaGetErrorString(status));
}

ncclComm_t NcclLink::Shared::comm_for_call() const {
  if (given_up) throw Error(ErrorCode::peer_lost, "NCCL's messages were given up");
  return comm;
}

bool NcclLink::Shared::accepted() {
  const ncclComm_t used = comm_for_call();
  ncclResult_t state = ncclSuccess;
  require_nccl(ncclCommGetAsyncError(used, &state), used, "report its state");
  require_nccl(state, used, "continue");
  return state == ncclSuccess;
}

void NcclLink::Shared::launch(Group& group) {
  // NCCL asks for one order of all communicators' groups on every rank.
  for (Rest rest; turns->launched != group.turn && !given_up;) rest();
  {
    const std::lock_guard lock(calls);
    const ncclComm_t used = comm_for_call();
    if (group.ordered) {
      require_cuda(cudaStreamWaitEvent(stream, group.before, 0), "order messages behind kernels");
    }
    require_nccl(ncclGroupStart(), used, "begin a group of messages");
    ncclResult_t result = ncclSuccess;
    const auto take = [&](ncclResult_t of_call) {
      if (result == ncclSuccess && of_call != ncclInProgress) result = of_call;
    };
    for (const RecvMessage& m : group.receives) {
      take(ncclRecv(m.data, m.bytes, ncclUint8, m.peer, used, stream));
    }
    for (const SendMessage& m : group.sends) {
      take(ncclSend(m.data, m.bytes, ncclUint8, m.peer, used, stream));
    }
    take(ncclGroupEnd());  // Whatever came before: the thread must not stay inside of a group.
    require_nccl(result, used, "start a group of messages");
  }
  // Until NCCL has accepted the group, an event would not cover it.
  for (Rest rest;; rest()) {
    const std::lock_guard lock(calls);
    if (!accepted()) continue;
    require_cuda(cudaEventRecord(group.after, stream), "mark the end of a group of messages");
    ++turns->launched;
    return;
  }
}

void NcclLink::Shared::abort_and_drain() {
  cudaSetDevice(device);
  // An owner that is stuck in a call is freed by the abort.
  std::unique_lock lock(calls, std::try_to_lock);
  for (int i = 0; i < kCallPolls && !lock.owns_lock(); ++i) {
    std::this_thread::sleep_for(kPoll);
    (void)lock.try_lock();
  }
  if (comm != nullptr) ncclCommAbort(comm);
  comm = nullptr;
  if (stream == nullptr) return;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) std::this_thread::sleep_for(kPoll);
  cudaStreamDestroy(stream);
  stream = nullptr;
}

std::string NcclLink::address(int device) {
  std::array<char, 32> text{};
  require_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
               "read the PCI address of a device");
  return text.data();
}

NcclLink::Id NcclLink::make_id() {
  ncclUniqueId id;
  require_nccl(ncclGetUniqueId(&id), nullptr, "make an id for the run");
  Id bytes;
  std::memcpy(bytes.data(), &id, bytes.size());
  return bytes;
}

NcclLink::NcclLink(int device, std::shared_ptr<Turns> turns)
    : shared_(std::make_shared<Shared>(device, std::move(turns))) {
  cuda::refuse_abandoned_devices();
  require_cuda(cudaSetDevice(device), "select a device");
  // Messages go before kernels that wait for a place on the device.
  int lowest = 0, highest = 0;
  require_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
               "read the priorities of streams");
  require_cuda(cudaStreamCreateWithPriority(&shared_->stream, cudaStreamNonBlocking, highest),
               "make a stream");
  reserve(kFewestGroups);
}

NcclLink::~NcclLink() {
  if (cuda::devices_abandoned()) return;
  for (const Shared::Group& group : shared_->groups) {
    cudaEventDestroy(group.before);
    cudaEventDestroy(group.after);
  }
}

void NcclLink::connect(const Id& id, int rank, int ranks) {
  ncclUniqueId unique;
  std::memcpy(&unique, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::lock_guard lock(shared_->calls);
  (void)shared_->comm_for_call();
  require_nccl(ncclCommInitRankConfig(&shared_->comm, ranks, unique, rank, &config), shared_->comm,
               "connect the ranks");
}

bool NcclLink::ready() {
  const std::lock_guard lock(shared_->calls);
  return shared_->accepted();
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)

bool NcclLink::registers() noexcept { return true; }

std::byte* NcclLink::take_registered(std::size_t bytes) {
  const std::lock_guard lock(shared_->calls);
  const ncclComm_t comm = shared_->comm_for_call();
  const std::string size = std::to_string(bytes) + " bytes";
  const auto held = cuda::hold_off_captures(shared_->device);
  void* begin = nullptr;
  require_nccl(ncclMemAlloc(&begin, bytes), comm,
               ("allocate " + size + " for halo messages").c_str());
  try {
    require_cuda(cudaMemsetAsync(begin, 0, bytes, shared_->stream), "clear memory");
    require_cuda(cudaStreamSynchronize(shared_->stream), "clear memory");
    void* handle = nullptr;
    require_nccl(ncclCommRegister(comm, begin, bytes, &handle), comm,
                 ("register " + size + " for halo messages").c_str());
    shared_->registered.emplace(static_cast<std::byte*>(begin), handle);
  } catch (...) {
    ncclMemFree(begin);
    throw;
  }
  return static_cast<std::byte*>(begin);
}

// What fails here has failed before, or loses nothing but the memory.
void NcclLink::give_back_registered(std::byte* begin, double seconds) noexcept {
  if (given_up()) give_up(seconds);
  if (cuda::devices_abandoned()) return;
  const std::lock_guard lock(shared_->calls);
  const auto found = shared_->registered.find(begin);
  if (found == shared_->registered.end()) return;
  const auto held = cuda::hold_off_captures(shared_->device);
  // A communicator that was given up has forgotten what it knew.
  if (shared_->comm != nullptr) ncclCommDeregister(shared_->comm, found->second);
  shared_->registered.erase(found);
  ncclMemFree(begin);
}

#else

bool NcclLink::registers() noexcept { return false; }

std::byte* NcclLink::take_registered(std::size_t) {
  throw Error(ErrorCode::usage, "this build's NCCL is older than 2.19 and registers no memory");
}

void NcclLink::give_back_registered(std::byte*, double) noexcept {}

#endif

void NcclLink::leave() {
  const std::lock_guard lock(shared_->calls);
  const ncclComm_t comm = shared_->comm_for_call();
  require_nccl(ncclCommFinalize(comm), comm, "leave the other ranks");
}

void NcclLink::close() {
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ends = true;
    shared_->changed.notify_all();
    shared_->changed.wait(lock, [&] { return !shared_->launches; });
  }
  const std::lock_guard lock(shared_->calls);
  ncclComm_t comm = shared_->comm_for_call();
  shared_->comm = nullptr;
  if (comm != nullptr) require_nccl(ncclCommDestroy(comm), nullptr, "end");
  cudaStream_t stream = shared_->stream;
  shared_->stream = nullptr;
  require_cuda(cudaStreamDestroy(stream), "end a stream");
}

void NcclLink::begin_to_give_up() noexcept {
  if (shared_->given_up.exchange(true)) return;
  try {
    std::thread([shared = shared_] {
      shared->abort_and_drain();
      {
        const std::lock_guard lock(shared->mutex);
        shared->abort_returned = true;
      }
      shared->changed.notify_all();
    }).detach();
  } catch (...) {
    // No thread could be started, so nothing is aborted and `give_up` waits in vain.
  }
}

void NcclLink::give_up(double seconds) noexcept {
  const std::shared_ptr<Shared> shared = shared_;
  begin_to_give_up();
  std::unique_lock lock(shared->mutex);
  if (shared->left_behind) return;
  shared->left_behind =
      !shared->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                [&] { return shared->abort_returned && !shared->launches; });
  if (!shared->left_behind) return;
  abort_hangs = true;
  cuda::abandon_devices();
}

bool NcclLink::given_up() const noexcept { return shared_->given_up; }

bool nccl_abort_hangs() noexcept { return abort_hangs; }

}  // namespace heliograph
