#pragma once

#include <functional>
#include <memory>

#include "comm/processes/group.hpp"

namespace heliograph {

struct MpiTransportOptions : ProcessGroupOptions {
  /// Whether halo messages of a rank that computes on a CUDA device are handed to MPI where they
  /// lie. Ranks may differ: what travels is the same.
  CudaAwareMpi cuda_aware = CudaAwareMpi::off;
};

/// Whether this build can run ranks as MPI processes.
bool mpi_built() noexcept;

/// Whether the MPI library says that it can reach the memory of CUDA devices. Some libraries say no
/// until MPI has been initialised.
bool mpi_is_cuda_aware() noexcept;

/// The group of the processes that mpirun or srun started together.
/// One at a time in a process. Initialises MPI if nobody has; MPI that was initialised here is
/// finalised by finalize_mpi, or when the process exits.
/// All MPI calls are made by the thread that calls these functions, so MPI_THREAD_FUNNELED is
/// enough, and a program that has called MPI_Init calls them on its main thread. After a failure
/// MPI is not called any more. Where MPI is handed memory of devices, that thread works on the
/// rank's device from then on.
class MpiGroup final : public ProcessGroup {
 public:
  /// Throws Error: usage (MPI is not built, has been finalised, wants another thread, or is not
  /// CUDA-aware where it must be), peer_lost, resource.
  explicit MpiGroup(const MpiTransportOptions& options);
  ~MpiGroup() override;

  TransportKind kind() const noexcept override { return TransportKind::mpi; }
  bool moves_device_memory() const noexcept override;
  void run(const std::function<void(Communicator&)>& body) override;
  void leave() override;

 private:
  /// Joins the other ranks. All that MPI may still write to lies in state_.
  void join();

  struct State;
  std::unique_ptr<State> state_;
};

/// Finalises MPI if it was initialised here and no rank was lost. Call after the group has left.
void finalize_mpi() noexcept;

}  // namespace heliograph
