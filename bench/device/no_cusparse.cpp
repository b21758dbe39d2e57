#include "device/cusparse_spmm.hpp"
#include "heliograph/error.hpp"

namespace heliograph::bench {

struct CusparseSpmm::State {};

CusparseSpmm::CusparseSpmm(const Arguments& /*arguments*/, cudaStream_t /*stream*/) {
  throw Error(ErrorCode::resource, "this build has no cuSPARSE");
}
CusparseSpmm::~CusparseSpmm() = default;
void CusparseSpmm::run() {}

}  // namespace heliograph::bench
