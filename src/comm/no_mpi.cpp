#include "comm/mpi_transport.hpp"

namespace heliograph {

/// What a group would have; none is ever made.
struct MpiGroup::State {
  RankWatch watch{0, 1, {}};
};

namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::usage,
              "--transport mpi: this build has no MPI transport; run the ranks as threads of one "
              "process with --transport threads, or use a build whose `heliograph info` lists mpi");
}

}  // namespace

bool mpi_built() noexcept { return false; }
bool mpi_is_cuda_aware() noexcept { return false; }

MpiGroup::MpiGroup(const MpiTransportOptions&) { refuse(); }
MpiGroup::~MpiGroup() = default;
RankWatch& MpiGroup::watch() noexcept { return state_->watch; }
bool MpiGroup::moves_device_memory() const noexcept { return false; }
void MpiGroup::run(const std::function<void(Communicator&)>&) { refuse(); }
void MpiGroup::leave() { refuse(); }

void finalize_mpi() noexcept {}

void run_mpi_rank(const MpiTransportOptions&, const std::function<void(Communicator&)>&) {
  refuse();
}

}  // namespace heliograph
