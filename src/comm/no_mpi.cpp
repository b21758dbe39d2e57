#include "comm/mpi_transport.hpp"

namespace heliograph {

bool mpi_built() noexcept { return false; }

void run_mpi_rank(const MpiTransportOptions&, const std::function<void(Communicator&)>&) {
  throw Error(ErrorCode::usage,
              "--transport mpi: this build has no MPI transport; run the ranks as threads of one "
              "process with --transport threads, or use a build whose `heliograph info` lists mpi");
}

}  // namespace heliograph
