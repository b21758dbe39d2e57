#include "comm/nccl/transport.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

[[noreturn]] void refuse_nccl() {
  throw_error(
      ErrorCode::usage,
      "--transport nccl: this build has no NCCL transport; run the ranks as threads of one process "
      "with --transport threads, or use a build whose `heliograph info` lists nccl");
}

}  // namespace

bool nccl_built() noexcept { return false; }
bool nccl_registers() noexcept { return false; }

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, int,
                                                     const NcclTransportOptions&) {
  refuse_nccl();
}

void run_nccl_ranks(int, const NcclTransportOptions&, const std::function<void(Communicator&)>&) {
  refuse_nccl();
}

bool nccl_abort_hangs() noexcept { return false; }

}  // namespace heliograph
