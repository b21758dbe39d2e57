#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.hpp"

namespace heliograph {

struct NcclTransportOptions {
  /// Longest wait for the ranks to connect, and from the end of one group of messages to the end of
  /// the next: what moves inside a group cannot be seen.
  double timeout_seconds = 120;
  /// Longest wait for NCCL to give up its messages after a failure.
  double abort_seconds = 2;
  /// Halo messages lie in memory that NCCL knows of (Communicator::message_memory).
  bool registers_buffers = false;
};

/// Whether this build can connect CUDA devices by NCCL.
bool nccl_built() noexcept;

/// Whether it can register buffers.
bool nccl_registers() noexcept;

/// The communicator of a rank that computes on CUDA device `device % devices of this process`:
/// messages of the halo channel go from device to device by NCCL, on a stream of their own, as one
/// group for each flush. `host`, which must outlive it, does everything else.
/// Collective: connects the ranks of `host` by messages on its evaluation channel.
/// - Halo messages lie on the device. From the flush on no other stream writes them, and those that
///   are received are not read either.
/// - NCCL does not tell sizes: where those of sender and receiver disagree, both stall.
/// - If NCCL does not give its messages up within `abort_seconds` of a failure, it is left behind
///   with them (see nccl_abort_hangs), and everybody gets the Error all the same.
/// Throws Error: usage (NCCL is not built; no device, or two ranks on one, which NCCL refuses),
/// resource, peer_lost.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, int device,
                                                     const NcclTransportOptions& options);

/// Runs body(comm) on `ranks` threads of this process, rank r on CUDA device r, and returns when
/// all have ended; failures are those of run_ranks. Throws Error(usage) when NCCL is not built or
/// there are more ranks than devices.
void run_nccl_ranks(int ranks, const NcclTransportOptions& options,
                    const std::function<void(Communicator&)>& body);

/// Whether NCCL has been left behind in a call that does not return. The process then best ends by
/// _Exit: what runs at an ordinary exit may wait for that call.
bool nccl_abort_hangs() noexcept;

}  // namespace heliograph
