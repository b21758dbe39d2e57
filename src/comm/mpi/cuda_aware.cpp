// What the MPI library says of CUDA, in a file of its own, so that a test can replace it.

#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include "comm/mpi/transport.hpp"

namespace heliograph {

bool mpi_is_cuda_aware() noexcept {
#if defined(OMPI_HAVE_MPI_EXT_CUDA)  // Open MPI, asked at run time, as its library may change.
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH 4 and what is made from it
  int supported = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) == MPI_SUCCESS && supported != 0;
#else
  return false;
#endif
}

}  // namespace heliograph
