#pragma once

#include <functional>
#include <memory>

#include "comm/processes/group.hpp"

namespace heliograph {

struct MpiTransportOptions : ProcessGroupOptions {
  /// Whether MPI accesses halo messages in the memory of CUDA devices instead of in copies on the
  /// host. Ranks may differ in this, since the same bytes are sent.
  CudaAwareMpi cuda_aware = CudaAwareMpi::off;
};

/// Whether this build can run ranks as MPI processes.
bool mpi_built() noexcept;

/// Whether the MPI library says that it can reach the memory of CUDA devices. Some libraries say no
/// until MPI has been initialised.
bool mpi_is_cuda_aware() noexcept;

/// The group of the processes that mpirun or srun started together. A process has at most one.
/// The constructor initialises MPI unless the program has done so. MPI that was initialised here is
/// finalised by finalize_mpi or by the exit of the process.
/// The thread that calls these functions makes all MPI calls, so MPI_THREAD_FUNNELED is enough, and
/// a program that has called MPI_Init must call them on its main thread. After a failure no MPI
/// function is called. If MPI accesses device memory, that thread selects the rank's device.
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
  /// Joins the other ranks. Everything that MPI may still write to lies in state_.
  void join();

  struct State;
  std::unique_ptr<State> state_;
};

/// Finalises MPI if it was initialised here and no rank was lost. Call after the group has left.
void finalize_mpi() noexcept;

}  // namespace heliograph
