#include "train/launch.hpp"

#include <algorithm>

#include "comm/nccl/transport.hpp"
#include "comm/processes/group.hpp"
#include "core/thread.hpp"
#include "heliograph/train.hpp"
#include "train/processes.hpp"

namespace heliograph {

bool ranks_are_processes(const TransportOptions& transport) {
  return transport.kind == TransportKind::mpi || transport.kind == TransportKind::tcp ||
         (transport.kind != TransportKind::threads && ProcessGroup::current() != nullptr);
}

ThreadTransportOptions thread_options(const TransportOptions& transport) {
  ThreadTransportOptions options;
  options.link = {transport.link_gbps, transport.link_latency_us};
  options.timeout_seconds = transport.timeout_seconds;
  if (transport.device == DeviceKind::cuda) {
    options.copy = copy_by_cuda;
    options.on_thread = select_cuda_device;
  }
  return options;
}

int device_of_rank(const TransportOptions& transport, const Communicator& comm) {
  if (!ranks_are_processes(transport)) return comm.rank();
  return ProcessGroup::current()->rank_on_host();
}

bool devices_hang() noexcept { return nccl_abort_hangs(); }

int threads_per_rank(const TransportOptions& transport, int ranks) {
  if (transport.threads_per_rank > 0) return transport.threads_per_rank;
  const ProcessGroup* group = ProcessGroup::current();
  if (group != nullptr && ranks_are_processes(transport)) return group->cores();
  return std::max(1, usable_cores() / ranks);
}

void launch_ranks(int ranks, const LaunchOptions& options, const LogCallback& log,
                  const std::function<void(Communicator&)>& body) {
  const TransportOptions& transport = options.transport;
  const bool nccl = transport.kind == TransportKind::nccl;
  NcclTransportOptions nccl_options;
  nccl_options.timeout_seconds = transport.timeout_seconds;
  nccl_options.registers_buffers = transport.nccl_register;
  nccl_options.moves_weights = options.moves_weights;
  if (!ranks_are_processes(transport) && transport.device == DeviceKind::cuda) {
    const std::string lost = check_copies_between_devices(ranks);
    if (log && !lost.empty()) log(LogLevel::warning, lost);
  }
  if (!ranks_are_processes(transport) && nccl) {
    run_nccl_ranks(ranks, nccl_options, body);
    return;
  }
  if (!ranks_are_processes(transport)) {
    run_ranks(ranks, thread_options(transport), body);
    return;
  }
  ProcessGroup* group = ProcessGroup::current();
  const bool named = transport.kind == TransportKind::mpi || transport.kind == TransportKind::tcp;
  if (group == nullptr || (named && group->kind() != transport.kind)) {
    throw Error(ErrorCode::usage, "this process has not joined the others of its run");
  }
  require_parts(ranks, group->ranks());
  group->watch().set_phase(options.phase);
  group->run([&](Communicator& host) {
    if (!nccl) return body(host);
    const auto comm = make_nccl_communicator(host, device_of_rank(transport, host), nccl_options);
    body(*comm);
  });
  group->watch().set_phase(RunPhase::saving);
}

}  // namespace heliograph
