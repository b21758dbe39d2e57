#include "comm/nccl_transport.hpp"

namespace heliograph {

bool nccl_built() noexcept { return false; }

void run_nccl_ranks(int, const NcclTransportOptions&, const std::function<void(Communicator&)>&) {
  throw Error(ErrorCode::usage,
              "--transport nccl: this build has no NCCL transport; run the ranks as threads on the "
              "CPU with --transport threads --device cpu, or use a build whose `heliograph info` "
              "lists nccl");
}

}  // namespace heliograph
