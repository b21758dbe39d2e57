#pragma once

#include <numeric>
#include <utility>

#include "core/buffer.hpp"
#include "layers/feature_matrix.hpp"
#include "layers/graph_operator.hpp"
#include "layers/parameters.hpp"

namespace heliograph {

/// Scratch that the layers of a pass share. Each view starts at the buffer's beginning.
class Workspace {
 public:
  static constexpr int kBuffers = 3;
  /// `fp64`: with an accumulator for reproducible aggregation.
  Workspace(std::int64_t rows, std::int64_t width, bool fp64, MemoryAccount* account);

  /// Buffer `which` as a rows x cols matrix; contents are whatever was left there.
  MatrixView matrix(int which, std::int64_t rows, std::int64_t cols) const;
  AccumulatorView accumulator() const;
  void swap(int a, int b) { std::swap(order_[a], order_[b]); }
  /// Takes back all swaps.
  void reset() { std::iota(order_, order_ + kBuffers, 0); }

 private:
  int order_[kBuffers] = {0, 1, 2};
  Buffer buffers_[kBuffers];
  Buffer accumulator_;
};

using GradientRows = FunctionRef<void(int parameter, std::int64_t begin, std::int64_t end)>;

/// One graph convolution: y = A x W (GCN) or y = x W_self + A x W (GraphSAGE), plus a bias where
/// one is given. Keeps what its backward needs from its forward.
class Convolution {
 public:
  struct Shape {
    int layer = 0;
    std::int64_t in = 0;
    std::int64_t out = 0;
    ModelKind kind = ModelKind::gcn;
    bool transform_first = false;  ///< A (x W) instead of (A x) W.
    bool nonnegative_input = false;
  };

  Convolution(const Shape& shape, Parameters& parameters);

  const Shape& shape() const { return shape_; }

  /// Whether a training pass keeps A x, rows x in. `precomputed`: A x is given.
  bool keeps_aggregated(bool precomputed) const { return !precomputed && !shape_.transform_first; }
  /// Where it keeps it.
  void set_aggregated(MatrixView aggregated) { aggregated_ = aggregated; }
  /// Whether backward reads x where A x is not given.
  bool backward_reads_input() const { return self_weight_ >= 0 || shape_.transform_first; }

  /// `aggregated`: A x where it was precomputed, else null. `bias`: shape().out values that are
  /// added to every row of y, or null. Uses workspace buffer 1.
  void forward(const PassContext& pass, const GraphOperator& a, const Parameters& parameters,
               const FeatureView& x, const FeatureView* aggregated, const Workspace& workspace,
               const float* bias, MatrixView y);

  /// The same without keeping anything.
  void infer(const PassContext& pass, const GraphOperator& a, const Parameters& parameters,
             const FeatureView& x, const FeatureView* aggregated, const Workspace& workspace,
             const float* bias, MatrixView y) const;

  /// dy lies in workspace buffer 0; writes weight gradients, and dL/dx into buffer 2 if
  /// `input_gradient` (then x is dense). Must follow the forward of the same inputs.
  /// complete(i, begin, end): these rows of the gradient of parameter i are whole. Called as soon
  /// as they are, rows ascending, in an order that depends on the shape alone, while halo rows may
  /// be travelling.
  void backward(const PassContext& pass, const GraphOperator& a, const Parameters& parameters,
                const FeatureView& x, const FeatureView* aggregated, const Workspace& workspace,
                ConstMatrixView dy, bool input_gradient, GradientRows complete) const;

 private:
  void apply(const PassContext& pass, const GraphOperator& a, const Parameters& parameters,
             const FeatureView& x, const FeatureView* aggregated, const Workspace& workspace,
             MatrixView sum, const float* bias, MatrixView y) const;

  Shape shape_;
  int weight_;
  int self_weight_ = -1;
  MatrixView aggregated_;
};

}  // namespace heliograph
