#pragma once

#include <cstdint>

#include "core/function_ref.hpp"
#include "core/site.hpp"
#include "layers/graph_operator.hpp"
#include "layers/model_memory.hpp"
#include "layers/parameters.hpp"

namespace heliograph {

class Composition;

/// Called with rows [begin, end) of a parameter's gradient once they are final.
using GradientRows =
    FunctionRef<void(int parameter, std::int64_t begin, std::int64_t end, bool values_needed)>;

/// A step's view of the pass that runs it: the context, and the memory that the step has declared.
class Pass {
 public:
  /// All references must outlive the pass.
  Pass(const PassContext& pass_context, const GraphOperator& graph_operator, ModelMemory& memory,
       const Composition& model, GradientRows complete)
      : context(pass_context),
        graph(graph_operator),
        memory_(memory),
        model_(model),
        complete_(complete) {}

  const PassContext& context;
  const GraphOperator& graph;

  Kernels& kernels() const { return context.kernels; }
  PhaseClock& times() const { return context.times; }
  /// False in inference, which drops and saves nothing.
  bool training() const { return memory_.part() != PassPart::inference; }

  /// Forward's view of value `v`, of which only the rows made so far may be read.
  const FeatureView& read(ValueId v) const { return memory_.read(v); }
  /// Backward's view of value `v`, which forward has read and saved.
  FeatureView saved(ValueId v) const { return memory_.saved(v); }
  /// The matrix into which forward writes the output `v`.
  MatrixView write(ValueId v) const { return memory_.write(v); }
  /// The matrix into which training writes the output `v`, which is `input` after dropout. If
  /// `input` is sparse, the matrix is one row of its entries' values.
  MatrixView write_dropped(ValueId v, const FeatureView& input) const {
    return memory_.write_dropped(v, input);
  }
  /// Makes `view` the output `v` without copying it.
  void write_view(ValueId v, const FeatureView& view) const { memory_.set(v, view); }

  template <class T = float>
  BasicMatrixView<T> scratch(Scratch s) const {
    return memory_.scratch<T>(s);
  }
  AggregationScratch scratch(const SumScratch& s) const {
    AggregationScratch scratch;
    if (s.accumulator.id >= 0) scratch.accumulator = memory_.scratch<double>(s.accumulator);
    if (s.bf16_rows.id >= 0) scratch.bf16 = memory_.scratch<std::uint16_t>(s.bf16_rows);
    return scratch;
  }
  /// The matrix that the step's forward writes for its backward to read.
  MatrixView saved(Saved s) const { return memory_.saved(s); }

  /// Backward: dL/dv of the output `v`. The step may overwrite it.
  MatrixView gradient(ValueId v) const { return memory_.gradient(v); }
  /// Backward: the matrix that the step overwrites with its part of dL/dv, where the step reads
  /// `v`. Its data is null if `v` has no gradient (Composition::Value::has_gradient), and possibly
  /// on a rank without rows.
  MatrixView gradient_part(ValueId v) const { return memory_.gradient_part(v, step_); }

  bool has_gradient(ValueId v) const;

  MatrixView parameter(int i) const;
  MatrixView statistic(int i) const;
  GradientView parameter_gradient(int i) const;
  /// Announces that rows [begin, end) of a parameter's gradient are final. Each row is announced
  /// once, in ascending order. `values_needed`: whether the step still reads values of parameters
  /// whose gradients it has announced.
  void complete(int parameter, std::int64_t begin, std::int64_t end,
                bool values_needed = true) const {
    complete_(parameter, begin, end, values_needed);
  }
  void complete(int i) const { complete(i, 0, parameter(i).rows); }

  const Site& site(int id) const;

 private:
  friend class Network;
  int step_ = 0;  ///< The step that backward is running.
  ModelMemory& memory_;
  const Composition& model_;
  GradientRows complete_;
};

/// A part of a model. Its constructor declares everything that it needs (layers/composition.hpp); a
/// step holds no data between passes. A forward pass calls `forward` for each block of rows. For a
/// step that gathers, it first calls `offer` until all input rows were offered, then `gather` once.
/// Only the rank's own thread may use a step.
class Step {
 public:
  virtual ~Step() = default;

  /// These rows of the step's inputs are ready, so the step may send them to other ranks.
  virtual void offer(const Pass& /*pass*/, RowRange /*rows*/) {}
  /// All rows were offered, so the step may combine rows, for example sum over neighbours.
  virtual void gather(const Pass& /*pass*/) {}
  /// Makes these rows of the output, in training and in inference.
  virtual void forward(const Pass& pass, RowRange rows) = 0;

  // Backward makes the gradients of all parameters and inputs from the output's gradient: it calls
  // `backward`, then `backward_rows` for each block of rows, then `end_backward`. For a step that
  // pulls (Declare::pulls) it first calls `backward_offer` for each block.

  /// These rows of the output's gradient are ready, so the step may send them to other ranks.
  virtual void backward_offer(const Pass& /*pass*/, RowRange /*rows*/) {}
  virtual void backward(const Pass& /*pass*/) {}
  /// Makes these rows of the inputs' gradients final.
  virtual void backward_rows(const Pass& /*pass*/, RowRange /*rows*/) {}
  /// All rows are made: for gradients of parameters that need all of them.
  virtual void end_backward(const Pass& /*pass*/) {}
};

}  // namespace heliograph
