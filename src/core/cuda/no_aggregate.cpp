#include "core/cuda/aggregate.hpp"
#include "heliograph/error.hpp"

namespace heliograph::cuda {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::usage, "--device cuda: aggregation is not built yet");
}

}  // namespace

void aggregate_inner(Queue&, const CsrView&, ConstMatrixView, const float*, bool, const float*,
                     MatrixView) {
  refuse();
}
void aggregate_inner_bf16(Queue&, const CsrView&, ConstMatrixView, const float*, bool, const float*,
                          MatrixView, Bf16View) {
  refuse();
}
void aggregate_halo(Queue&, const CsrView&, const PackedRows&, const float*, MatrixView) {
  refuse();
}

}  // namespace heliograph::cuda
