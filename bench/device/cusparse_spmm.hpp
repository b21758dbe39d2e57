#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace heliograph::bench {

/// out = A x by cuSPARSE, its deterministic algorithm for rows (CUSPARSE_SPMM_CSR_ALG2), A not
/// transposed: what an aggregation without scales would be there. cuSPARSE is loaded when one is
/// made.
class CusparseSpmm {
 public:
  /// A in compressed rows, with a value an edge; x and out row-major, strides in values. All lies
  /// on the device and must outlive the object.
  struct Arguments {
    std::int64_t outputs, rows, edges, width;
    const std::int32_t* offsets;
    const std::int32_t* columns;
    const float* values;
    const float* x;
    std::int64_t x_stride;
    float* out;
    std::int64_t out_stride;
  };
  /// Throws Error(resource) where there is no cuSPARSE, or it fails.
  CusparseSpmm(const Arguments& arguments, cudaStream_t stream);
  ~CusparseSpmm();
  CusparseSpmm(const CusparseSpmm&) = delete;
  CusparseSpmm& operator=(const CusparseSpmm&) = delete;

  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heliograph::bench
