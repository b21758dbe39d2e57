#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

// NCCL between the threads of one process. Each thread is a rank on an emulated device of its own.
//
// - Communicators are non-blocking: connecting, launching a group and finalizing take effect only
//   after the state was polled as often as set_polls() says, and connecting only when all ranks
//   connect. Until then a group is not on its stream, and an event recorded after it does not cover
//   it.
// - A message is done when the streams of both its ends have reached its group, and a group when
//   all its messages are done. So a group delays later work on its stream, as in NCCL.
// - Between two ranks, sends and receives are matched in the order of their calls. If their sizes
//   differ, the message is never done.
// - Behaviour that NCCL leaves undefined is recorded as a violation: to call a communicator that
//   has ended, that is busy with an earlier call or that belongs to another device, and to leave a
//   group open.
// - ncclCommAbort ends the communicator's messages, then frees memory, which waits for all work of
//   the device: also for messages of its other communicators.
// - Calls of CUDA, NCCL and cuBLAS that allocate, free or register memory, make events, make or
// free
//   graphs, or load a kernel at its first use may wait for all work of the device and of those that
//   it reaches. So each is a violation while messages are in flight there. Other violations are to
//   register memory that is not from ncclMemAlloc, to free registered memory, to leave memory
//   registered at the end, to deregister it twice, and to mix registered and other buffers.

namespace heliograph::nccl_emulation {

struct Call {
  std::string function;
  int peer = -1;
  std::size_t bytes = 0;
  bool operator==(const Call&) const = default;
};

/// The calls of one rank so far, in order, without polls of the state. ncclGroupStart counts
/// as a call of the rank of the group's first message.
std::vector<Call> calls_of(int rank);
/// The violations so far: calls that NCCL forbids.
std::vector<std::string> violations();

/// Sets for how many polls of the state each operation stays in progress.
void set_polls(int polls);
inline constexpr int kForever = 1 << 30;
/// Makes calls that may wait for devices slow on this device once a run has sent its first message,
/// so that ranks that do not wait for the caller send meanwhile.
void slow_down(int device);
/// Makes the `n`-th call from now on of this function by `rank` return `error`, once.
void fail_call(int rank, const std::string& function, int n, ncclResult_t error);
/// Makes the state of `rank` become `error` when its `n`-th group (1 is the first) is launched.
void fail_group(int rank, int n, ncclResult_t error);
/// Sets whether ncclCommAbort hangs from now on. Turning it off waits until hanging calls return.
void hang_aborts(bool hang);

/// Forgets calls, failures and violations. No thread may be in a call.
void reset();

}  // namespace heliograph::nccl_emulation
