#include "train/launch.hpp"

#include "comm/launcher.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/nccl_transport.hpp"
#include "comm/thread_transport.hpp"
#include "train/processes.hpp"

namespace heliograph {

bool ranks_are_processes(const TransportOptions& transport) {
  return transport.kind == TransportKind::mpi ||
         (transport.kind != TransportKind::threads && MpiGroup::current() != nullptr);
}

int device_of_rank(const TransportOptions& transport, const Communicator& comm) {
  if (!ranks_are_processes(transport)) return comm.rank();
  const auto launched = launched_by_mpi();
  return launched && launched->local_rank ? *launched->local_rank : comm.rank();
}

bool devices_hang() noexcept { return nccl_abort_hangs(); }

int threads_per_rank(const TransportOptions& transport) {
  const MpiGroup* group = MpiGroup::current();
  if (transport.threads_per_rank > 0 || group == nullptr || !ranks_are_processes(transport)) {
    return transport.threads_per_rank;
  }
  return group->cores();
}

void launch_ranks(int ranks, const TransportOptions& transport,
                  const std::function<void(Communicator&)>& body) {
  const bool nccl = transport.kind == TransportKind::nccl;
  const NcclTransportOptions nccl_options{transport.timeout_seconds};
  if (!ranks_are_processes(transport) && nccl) {
    run_nccl_ranks(ranks, nccl_options, body);
    return;
  }
  if (!ranks_are_processes(transport)) {
    const bool cuda = transport.device == DeviceKind::cuda;
    const ThreadTransportOptions threads{{transport.link_gbps, transport.link_latency_us},
                                         transport.timeout_seconds,
                                         cuda ? copy_by_cuda : copy_on_host};
    run_ranks(ranks, threads, body);
    return;
  }
  MpiGroup* group = MpiGroup::current();
  if (group == nullptr) {
    throw Error(ErrorCode::usage, "--transport mpi: this process has not joined the others");
  }
  require_parts(ranks, group->ranks());
  group->watch().set_phase(RunPhase::training);
  group->run([&](Communicator& host) {
    if (!nccl) return body(host);
    const auto comm = make_nccl_communicator(host, device_of_rank(transport, host), nccl_options);
    body(*comm);
  });
  group->watch().set_phase(RunPhase::saving);
}

}  // namespace heliograph
