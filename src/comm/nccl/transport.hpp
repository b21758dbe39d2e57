#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.hpp"

namespace heliograph {

struct NcclTransportOptions {
  /// The longest wait for the ranks to connect, and the longest time between the ends of two groups
  /// of messages, since progress within a group cannot be observed.
  double timeout_seconds = 120;
  /// The longest wait for NCCL to abort its messages after a failure.
  double abort_seconds = 2;
  /// Whether halo messages lie in memory registered with NCCL (Communicator::message_memory).
  bool registers_buffers = false;
  /// Whether NCCL also moves those messages of the weights channel that lie in device memory, by a
  /// communicator of its own, so that they do not wait behind halos in flight.
  bool moves_weights = false;
};

/// Whether this build can connect CUDA devices by NCCL.
bool nccl_built() noexcept;

/// Whether this build's NCCL can register buffers.
bool nccl_registers() noexcept;

/// The communicator of a rank that computes on CUDA device `device % devices of this process`:
/// messages of the halo channel go from device to device by NCCL, on a stream of their own, as one
/// group for each flush; so may those of the weights channel. `host`, which must outlive it, does
/// everything else. Collective: connects the ranks of `host` by messages on its evaluation channel.
/// - Halo messages lie on the device. After the flush no other stream may write them, or read those
///   that are being received.
/// - NCCL does not check sizes: if those of sender and receiver differ, both stall.
/// - If NCCL does not abort its messages within `abort_seconds` of a failure, the abort is left
///   running (see nccl_abort_hangs), and every rank gets the Error all the same.
/// Throws Error: usage (NCCL is not built; no device, or two ranks on one, which NCCL refuses),
/// resource, peer_lost.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, int device,
                                                     const NcclTransportOptions& options);

/// Runs body(comm) on `ranks` threads of this process, rank r on CUDA device r, and returns when
/// all have ended; failures are those of run_ranks. Throws Error(usage) when NCCL is not built or
/// there are more ranks than devices.
void run_nccl_ranks(int ranks, const NcclTransportOptions& options,
                    const std::function<void(Communicator&)>& body);

/// Whether a call of NCCL was abandoned because it does not return. The process should then end by
/// _Exit, since destructors and exit handlers may wait for that call.
bool nccl_abort_hangs() noexcept;

}  // namespace heliograph
