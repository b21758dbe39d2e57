#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace heliograph::bench {

/// out = A x by cuSPARSE's deterministic algorithm CUSPARSE_SPMM_CSR_ALG2: its counterpart of an
/// aggregation without scales. The constructor loads cuSPARSE.
class CusparseSpmm {
 public:
  /// A (outputs x rows, `edges` entries) in compressed rows with a value an edge; x and out are
  /// row-major, `width` columns. All arrays lie on the device and must outlive the object.
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
  /// Throws Error(resource) if cuSPARSE cannot be loaded or fails.
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
