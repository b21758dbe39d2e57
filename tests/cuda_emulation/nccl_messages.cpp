#include "nccl_messages.hpp"

#include <cstring>
#include <mutex>
#include <string>

#include "nccl_state.hpp"
#include "streams.hpp"

namespace heliograph::nccl_emulation {
namespace {

using cuda_emulation::Access;
using cuda_emulation::Stream;

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

}  // namespace

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

}  // namespace heliograph::nccl_emulation
