#include "comm/mpi/transport.hpp"
#include "core/throw_error.hpp"

namespace heliograph {

struct MpiGroup::State {};

namespace {

[[noreturn]] void refuse_mpi() {
  throw_error(ErrorCode::usage,
              "--transport mpi: this build has no MPI transport; run the ranks as threads of one "
              "process with --transport threads, or use a build whose `heliograph info` lists mpi");
}

}  // namespace

bool mpi_built() noexcept { return false; }
bool mpi_is_cuda_aware() noexcept { return false; }

MpiGroup::MpiGroup(const MpiTransportOptions&) { refuse_mpi(); }
MpiGroup::~MpiGroup() = default;
bool MpiGroup::moves_device_memory() const noexcept { return false; }
void MpiGroup::run(const std::function<void(Communicator&)>&) { refuse_mpi(); }
void MpiGroup::leave() { refuse_mpi(); }

void finalize_mpi() noexcept {}

}  // namespace heliograph
