#pragma once

#include <nccl.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

// Messages of the emulated NCCL: groups wait in streams until the streams of both ends of each
// message have come to it. With the emulation's lock, but for what a stream does.

namespace heliograph::nccl_emulation {

struct Group;

/// One end of a message.
struct End {
  Group* group;
  std::byte* data;  // Only read when sending.
  std::size_t bytes;
  bool copied = false;
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

/// Puts a group's messages into their lanes, and the group on its stream.
void launch(Group* group, cudaStream_t stream);

}  // namespace heliograph::nccl_emulation
