#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/site.hpp"
#include "layers/model_memory.hpp"
#include "layers/parameters.hpp"
#include "layers/step.hpp"

namespace heliograph {

/// When a step uses a scratch matrix.
struct Uses {
  bool forward = false;  ///< Of training.
  bool backward = false;
  bool inference = false;
};

/// A model before it has memory: steps in topological order, the values between them, and what
/// each step declares. Ranks compose alike, so all of it is equal on every rank.
class Composition {
 public:
  /// `fp64_sums`: sums over neighbours are kept in fp64. `bf16_rows`: in training they read a
  /// rank's own rows as bf16.
  Composition(bool fp64_sums, bool bf16_rows) : fp64_sums_(fp64_sums), bf16_rows_(bf16_rows) {}

  struct Value {
    std::int64_t cols = 0;
    int layer = 0;
    int producer = -1;         ///< Step; -1: an input of the model.
    std::vector<int> readers;  ///< Steps, ascending.
    bool nonnegative = false;
    bool kept = false;          ///< Until backward.
    bool has_gradient = false;  ///< It depends on a parameter.
    /// The input that it is after dropout, sparse where that is sparse; in inference that itself.
    ValueId drops_from = kNoValue;
    /// The value whose gradient is overwritten to become this one's.
    ValueId gradient_in = kNoValue;
  };
  struct ScratchMatrix {
    int step;
    std::int64_t cols;
    std::int64_t value_bytes;
    Uses uses;
  };
  struct KeptMatrix {
    int step;
    std::int64_t cols;
    bool by_column;  ///< `cols` rows of one value a node, not a row of `cols` values for each.
  };

  /// An input of the model. Inputs come before steps.
  ValueId add_input(std::int64_t cols);

  /// Makes a step, S(Declare&, args...), whose constructor declares what it reads, writes and
  /// needs. `name` begins the names of its parameters and sites. Returns the value that it writes.
  /// Throws Error(usage) for a name that another parameter or site has, a value that is read twice
  /// or not written once, and a gradient that cannot be overwritten.
  template <class S, class... Args>
  ValueId add(std::string name, int layer, Args&&... args) {
    begin_step(std::move(name), layer);
    Declare declare(*this);
    steps_.push_back(std::make_unique<S>(declare, std::forward<Args>(args)...));
    return end_step();
  }

  /// The model's output: the last value.
  void set_logits(ValueId v);

  int steps() const { return static_cast<int>(steps_.size()); }
  Step& step(int i) const { return *steps_[static_cast<std::size_t>(i)]; }
  /// Whether a step's forward needs all rows of what it reads.
  bool gathers(int step) const { return gathers_[static_cast<std::size_t>(step)]; }
  const std::vector<Value>& values() const { return values_; }
  const Value& value(ValueId v) const { return values_[static_cast<std::size_t>(v)]; }
  ValueId output(int step) const {
    return static_cast<ValueId>(values_.size() - steps_.size()) + step;
  }
  const std::vector<Site>& sites() const { return sites_; }
  const std::vector<ScratchMatrix>& scratch() const { return scratch_; }
  const std::vector<KeptMatrix>& kept() const { return kept_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  ValueId logits() const { return logits_; }

  /// What the constructor of a step is handed, to declare the step.
  class Declare {
   public:
    explicit Declare(Composition& model) : model_(model) {}

    const Value& value(ValueId v) const { return model_.value(v); }
    int layer() const { return model_.layer_; }
    int step() const { return static_cast<int>(model_.steps_.size()); }

    /// Forward reads `v`, and so does backward if `in_backward`.
    void reads(ValueId v, bool in_backward);
    /// The output; once, after what is read.
    ValueId writes(std::int64_t cols, bool nonnegative);
    /// The same: an input of the model after dropout.
    ValueId writes_dropped(ValueId input);
    /// Forward needs all rows of what it reads: `offer` and `gather` are called.
    void gathers();
    /// Backward turns the output's gradient into that of `v`, in its place. Nobody else reads `v`,
    /// and the output was declared before.
    void overwrites_gradient(ValueId v);

    /// Index of a parameter "STEP.NAME".
    int parameter(std::string_view name, std::int64_t rows, std::int64_t cols, ParameterKind kind);
    /// Id of an exchange "STEP.forward" or "STEP.backward".
    int site(Direction direction, std::int64_t cols, bool nonnegative, std::int64_t exact_cols = 0);
    /// A matrix with a row a node and `cols` columns of `value_bytes` each.
    Scratch scratch(std::int64_t cols, Uses uses, std::int64_t value_bytes = sizeof(float));
    /// For `cols` columns, summed forward, and backward too if `backward`.
    SumScratch sum_scratch(std::int64_t cols, bool backward);
    Kept keeps(std::int64_t cols, bool by_column = false);

   private:
    Composition& model_;
  };

 private:
  Value& change(ValueId v) { return values_[static_cast<std::size_t>(v)]; }
  ValueId add_value(Value value);
  [[noreturn]] void refuse(const std::string& what) const;
  void begin_step(std::string name, int layer);
  ValueId end_step();

  bool fp64_sums_, bf16_rows_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<bool> gathers_;
  std::vector<Value> values_;
  std::vector<Site> sites_;
  std::vector<ScratchMatrix> scratch_;
  std::vector<KeptMatrix> kept_;
  Parameters parameters_;
  ValueId logits_ = kNoValue;
  // Of the step that is being made.
  std::string name_;
  int layer_ = 0;
  int parameters_before_ = 0;
  std::size_t values_before_ = 0;
};

using Declare = Composition::Declare;

}  // namespace heliograph
