// The groups of messages of a link, and the thread that launches them.

#include <system_error>
#include <thread>

#include "comm/nccl/link_state.hpp"
#include "core/cuda/runtime.hpp"

namespace heliograph {
namespace {

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  require_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  return event;
}

}  // namespace

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
  group.turn = shared_->turns->asked++;
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
