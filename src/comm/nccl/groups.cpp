// The groups of messages of a link, and the thread that launches them.

#include <system_error>
#include <thread>

#include "comm/nccl/link_state.hpp"
#include "comm/rest.hpp"
#include "core/cuda/runtime.hpp"

namespace heliograph {
namespace {

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  require_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  return event;
}

}  // namespace

void NcclLink::Shared::launch(Group& group) {
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
    return;
  }
}

void NcclLink::Shared::launch_groups() noexcept {
  try {
    require_cuda(cudaSetDevice(device), "select a device");
    while (true) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ends || given_up || asked > launched; });
        if (ends || given_up) break;
      }
      launch(group(launched + 1));
      ++launched;
    }
  } catch (...) {
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
    failed = true;
  }
  const std::lock_guard lock(mutex);
  launches = false;
  changed.notify_all();
}

void NcclLink::reserve(std::size_t groups) {
  std::vector<Shared::Group>& all = shared_->groups;
  if (groups <= all.size()) return;
  all.resize(groups);
  for (Shared::Group& group : all) {
    if (group.before == nullptr) group.before = make_event();
    if (group.after == nullptr) group.after = make_event();
  }
}

bool NcclLink::has_room() const { return asked_ - taken_ < shared_->groups.size(); }

void NcclLink::launch(std::span<const SendMessage> sends, std::span<const RecvMessage> receives,
                      cuda::Queue* after) {
  Shared::Group& group = shared_->group(++asked_);
  group.sends.assign(sends.begin(), sends.end());
  group.receives.assign(receives.begin(), receives.end());
  group.ordered = after != nullptr;
  if (group.ordered) after->mark(group.before);
  const std::lock_guard lock(shared_->mutex);
  shared_->asked = asked_;
  if (!shared_->launches && !shared_->failed) {
    try {
      std::thread([shared = shared_] { shared->launch_groups(); }).detach();
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::resource, std::string("no thread could be started: ") + error.what());
    }
    shared_->launches = true;
  }
  shared_->changed.notify_all();
}

std::uint64_t NcclLink::launched() {
  if (shared_->failed) {
    const std::lock_guard lock(shared_->mutex);
    std::rethrow_exception(shared_->failure);
  }
  const std::uint64_t launched = shared_->launched;
  if (launched == asked_) (void)ready();  // The launching thread calls NCCL at no other time.
  return launched;
}

void NcclLink::join(std::uint64_t group, cuda::Queue& queue,
                    const std::function<void(bool)>& look) {
  queue.wait_for(shared_->group(group).after, look);
}

bool NcclLink::take_done() {
  if (taken_ == shared_->launched) return false;
  const cudaError_t status = cudaEventQuery(shared_->group(taken_ + 1).after);
  if (status == cudaErrorNotReady) return false;
  require_cuda(status, "move messages");
  ++taken_;
  return true;
}

bool NcclLink::oldest_begins() const {
  if (taken_ == asked_) return true;
  const Shared::Group& oldest = shared_->group(taken_ + 1);
  return !oldest.ordered || cudaEventQuery(oldest.before) != cudaErrorNotReady;
}

std::size_t NcclLink::under_way_before_failure() const {
  return shared_->failed ? shared_->launched - taken_ : 0;
}

}  // namespace heliograph
