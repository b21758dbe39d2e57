#pragma once

#include <cstdint>
#include <span>

#include "core/function_ref.hpp"
#include "core/site.hpp"
#include "layers/graph_operator.hpp"
#include "layers/model_memory.hpp"
#include "layers/parameters.hpp"

namespace heliograph {

class Composition;

using GradientRows = FunctionRef<void(int parameter, std::int64_t begin, std::int64_t end)>;

/// What a step sees of the pass that it is a part of: the context, and what it has declared.
class Pass {
 public:
  /// All of it outlives the pass. `complete` takes whole rows of a parameter's gradient.
  Pass(const PassContext& pass_context, const GraphOperator& graph_operator, ModelMemory& memory,
       const Composition& model, std::span<const RowRange> row_blocks, GradientRows complete)
      : context(pass_context),
        graph(graph_operator),
        blocks(row_blocks),
        memory_(memory),
        model_(model),
        complete_(complete) {}

  const PassContext& context;
  const GraphOperator& graph;
  /// Of the rows of this pass, ascending; at least one.
  const std::span<const RowRange> blocks;

  Kernels& kernels() const { return context.kernels; }
  PhaseClock& times() const { return context.times; }
  /// False: inference, in which nothing is dropped and nothing kept.
  bool training() const { return memory_.part() != PassPart::inference; }

  /// Forward: a value, as far as its rows are made.
  const FeatureView& read(ValueId v) const { return memory_.read(v); }
  /// Backward: a value that forward has read and kept.
  FeatureView restore(ValueId v) const { return memory_.restore(v); }
  /// Forward: where the output goes.
  MatrixView write(ValueId v) const { return memory_.write(v); }
  /// The same of a value that is dropped from an input: one row of entries where that is sparse.
  MatrixView write_dropped(ValueId v, const FeatureView& input) const {
    return memory_.write_dropped(v, input);
  }
  /// The output is what lies there.
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
  MatrixView keep(Kept k) const { return memory_.keep(k); }
  ConstMatrixView restore(Kept k) const { return memory_.restore(k); }

  /// Backward: dL/d of the output; may be overwritten.
  MatrixView gradient(ValueId v) const { return memory_.gradient(v); }
  /// Backward: where the step writes its part of dL/d of what it reads, not adds. Without data
  /// where the value has no gradient (Composition::Value::has_gradient); on a rank without rows,
  /// data says nothing.
  MatrixView gradient_part(ValueId v) const { return memory_.gradient_part(v, step_); }

  MatrixView parameter(int i) const;
  GradientView parameter_gradient(int i) const;
  /// Rows [begin, end) of a parameter's gradient are whole. Once for each row, ascending.
  void complete(int parameter, std::int64_t begin, std::int64_t end) const {
    complete_(parameter, begin, end);
  }
  void complete(int i) const { complete(i, 0, parameter(i).rows); }

  const Site& site(int id) const;

 private:
  friend class Model;
  int step_ = 0;  ///< That is doing its part.
  ModelMemory& memory_;
  const Composition& model_;
  GradientRows complete_;
};

/// A part of a model. Its constructor declares all that it needs (layers/composition.hpp); it holds
/// no data between calls. A forward pass of a step that gathers is: `offer` until all rows of what
/// it reads were offered, `gather`, then `forward` for each block of rows; others have `forward`
/// alone. Used by the rank's own thread.
class Step {
 public:
  virtual ~Step() = default;

  /// These rows of what it reads are made: what other ranks need of them may leave.
  virtual void offer(const Pass& /*pass*/, RowRange /*rows*/) {}
  /// All rows were offered: what needs more than a row at a time, such as sums over neighbours.
  virtual void gather(const Pass& /*pass*/) {}
  /// Makes these rows of the output, in training and in inference.
  virtual void forward(const Pass& pass, RowRange rows) = 0;
  /// Gradients of all parameters and of what was read, of the output's.
  virtual void backward(const Pass& pass) = 0;
};

}  // namespace heliograph
