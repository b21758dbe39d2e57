#include <cstring>
#include <mutex>
#include <string>

#include "nccl_state.hpp"

namespace heliograph::nccl_emulation {
namespace {

using cuda_emulation::Access;

MessageQueue& queue_of(const Group& group, const Half& half) {
  World& world = *group.comm->world;
  const int me = group.comm->rank;
  return half.sending ? world.queues[{me, half.peer}] : world.queues[{half.peer, me}];
}

/// The other end, if its stream has come to it.
std::shared_ptr<End> started_partner(const Group& group, const Half& half) {
  const MessageQueue& queue = queue_of(group, half);
  const auto& others = half.sending ? queue.receives : queue.sends;
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

void put_on_stream(Group* group, cudaStream_t handle) {
  const cuda_emulation::SharedStream stream = cuda_emulation::find_stream(handle);
  if (stream == nullptr) {
    violation("a group on a stream that is none");
    return;
  }
  stream->work.push_back(
      {Access::all_devices, [group] { return run(*group); }, [group] { return ready(*group); }});
  ++stream->issued;
}

}  // namespace

void launch(Group* group, cudaStream_t stream) {
  Emulation& e = emulation();
  ncclComm_t comm = group->comm;
  for (Half& half : group->halves) {
    MessageQueue& queue = queue_of(*group, half);
    auto& ends = half.sending ? queue.sends : queue.receives;
    half.number = ends.size();
    ends.push_back(half.end);
  }
  ++comm->groups;
  const auto failure = e.group_failures.find(comm->rank);
  if (failure != e.group_failures.end() && comm->groups >= failure->second.at_call) {
    comm->error = failure->second.error;
  }
  put_on_stream(group, stream);
}

}  // namespace heliograph::nccl_emulation
