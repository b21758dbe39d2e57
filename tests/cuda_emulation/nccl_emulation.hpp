#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

// NCCL between the threads of one process. Each thread is a rank on an emulated device of its own.
//
// - Communicators are not blocking: to connect, to launch a group and to leave are taken up only
//   after as many questions for the state as set_polls says, and connecting only when all ranks do.
//   A group is on its stream, and an event behind it, only from then on.
// - A group is done when all of its messages are; a message is when the streams of both ends have
//   come to its group. So a group holds up what follows it on its stream, as NCCL's does.
// - Messages of two ranks meet in the order of their calls. Ends of different sizes never meet.
// - What the real one leaves undefined is a violation: a call with a communicator that has ended or
//   still takes up another one, that is of another device, or a group left open.
// - To allocate, free, register and deregister memory may wait for all that the device does: with
//   messages in flight on it that is a violation. So is to register what ncclMemAlloc did not give,
//   to free what is registered or to leave it so at the end, to deregister twice, and a message
//   that is not registered beside some that are.

namespace heliograph::nccl_emulation {

struct Call {
  std::string function;
  int peer = -1;
  std::size_t bytes = 0;
  bool operator==(const Call&) const = default;
};

/// The calls of one rank so far, in order, without questions for the state. ncclGroupStart counts
/// as a call of the rank of the group's first message.
std::vector<Call> calls_of(int rank);
/// What was done that NCCL forbids.
std::vector<std::string> violations();

/// Sets for how many questions for the state each operation stays in progress.
void set_polls(int polls);
inline constexpr int kForever = 1 << 30;
/// The `n`-th call (1: the next) of this function by `rank` returns `error`, once.
void fail_call(int rank, const std::string& function, int n, ncclResult_t error);
/// From its n-th group on (1: the first), the state of `rank` is `error` once the group is
/// launched.
void fail_group(int rank, int n, ncclResult_t error);
/// Whether ncclCommAbort does not return from now on. Turned off, calls that hang return.
void hang_aborts(bool hang);

/// Forgets calls, failures and violations. No thread may be in a call.
void reset();

}  // namespace heliograph::nccl_emulation
