#include "train/launch.hpp"

#include "comm/mpi_transport.hpp"
#include "comm/thread_transport.hpp"
#include "train/processes.hpp"

namespace heliograph {

bool ranks_are_processes(const TransportOptions& transport) {
  return transport.kind == TransportKind::mpi ||
         (transport.kind == TransportKind::automatic && MpiGroup::current() != nullptr);
}

int threads_per_rank(const TransportOptions& transport) {
  const MpiGroup* group = MpiGroup::current();
  if (transport.threads_per_rank > 0 || group == nullptr || !ranks_are_processes(transport)) {
    return transport.threads_per_rank;
  }
  return group->cores();
}

void launch_ranks(int ranks, const TransportOptions& transport,
                  const std::function<void(Communicator&)>& body) {
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
  group->run(body);
  group->watch().set_phase(RunPhase::saving);
}

}  // namespace heliograph
