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

/// The parts of a pass in which a step uses a scratch matrix.
struct Uses {
  bool forward = false;  ///< The forward pass of training.
  bool backward = false;
  bool inference = false;
};

/// A model before it has memory: steps in topological order, the values between them, and what
/// each step declares. Every rank makes the same composition.
class Composition {
 public:
  /// `fp64_sums`: sums over neighbours accumulate in fp64. `bf16_rows`: in training, sums over
  /// neighbours read the rank's own rows as bf16. `partial_sums`: each site has a second one, which
  /// sends partial sums.
  Composition(bool fp64_sums, bool bf16_rows, bool partial_sums = false)
      : fp64_sums_(fp64_sums), bf16_rows_(bf16_rows), partial_sums_(partial_sums) {}

  struct Value {
    std::int64_t cols = 0;
    int layer = 0;
    int producer = -1;          ///< The step that writes the value; -1 for an input of the model.
    std::vector<int> readers;   ///< The steps that read the value, ascending.
    bool nonnegative = false;   ///< No element of the value is below 0.
    DropoutMask dropped = {};   ///< The dropout by which elements of the value are 0.
    bool saved = false;         ///< Backward needs the value, so forward saves it.
    bool has_gradient = false;  ///< The value depends on a parameter.
    /// For a dropped input: the input before dropout. The value is sparse if that input is, and in
    /// inference it is that input itself.
    ValueId drops_from = kNoValue;
    /// The value whose gradient backward overwrites with the gradient of this one.
    ValueId gradient_in = kNoValue;
  };
  struct ScratchMatrix {
    int step;
    std::int64_t cols;
    std::int64_t value_bytes;
    Uses uses;
    MatrixRows rows;
  };
  struct SavedMatrix {
    int step;
    std::int64_t cols;
    bool by_column;         ///< The matrix is cols x nodes instead of nodes x cols.
    std::int64_t rows = 0;  ///< Not 0: the matrix is rows x cols, for any number of nodes.
    MatrixRows of = MatrixRows::inner;
  };

  /// Adds an input of the model. All inputs are added before the first step.
  ValueId add_input(std::int64_t cols);

  /// Adds a step S(Declare&, args...), whose constructor declares what it reads, writes and needs.
  /// The names of its parameters and sites begin with `name`. Returns the value that the step
  /// writes. Throws Error(usage) if another parameter or site has the same name, if the step reads
  /// a value twice or does not write exactly one, and for a gradient that cannot be overwritten.
  template <class S, class... Args>
  ValueId add(std::string name, int layer, Args&&... args) {
    begin_step(std::move(name), layer);
    Declare declare(*this);
    steps_.push_back(std::make_unique<S>(declare, std::forward<Args>(args)...));
    return end_step();
  }

  /// Makes the last value the model's output.
  void set_logits(ValueId v);
  /// Makes `v`, which a step has written, the model's embeddings.
  void set_embeddings(ValueId v) { embeddings_ = v; }

  int steps() const { return static_cast<int>(steps_.size()); }
  Step& step(int i) const { return *steps_[static_cast<std::size_t>(i)]; }
  /// Whether the step's forward needs all rows of the values that it reads.
  bool gathers(int step) const { return gathers_[static_cast<std::size_t>(step)]; }
  /// How a step's backward makes its rows; see Declare.
  enum class Backward : std::uint8_t { at_once, pulls, row_by_row };
  Backward backward(int step) const { return backward_[static_cast<std::size_t>(step)]; }
  const std::vector<Value>& values() const { return values_; }
  const Value& value(ValueId v) const { return values_[static_cast<std::size_t>(v)]; }
  ValueId output(int step) const {
    return static_cast<ValueId>(values_.size() - steps_.size()) + step;
  }
  const std::vector<Site>& sites() const { return sites_; }
  const std::vector<ScratchMatrix>& scratch() const { return scratch_; }
  const std::vector<SavedMatrix>& saved() const { return saved_; }
  /// The number of fp64 values that training sums over ranks in an epoch, besides gradients.
  std::int64_t rank_sums() const { return rank_sums_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  ValueId logits() const { return logits_; }
  ValueId embeddings() const { return embeddings_; }  ///< kNoValue: the model has none.

  /// A step's constructor gets this object and declares the step with it.
  class Declare {
   public:
    explicit Declare(Composition& model) : model_(model) {}

    const Value& value(ValueId v) const { return model_.value(v); }
    int layer() const { return model_.layer_; }
    int step() const { return static_cast<int>(model_.steps_.size()); }
    bool fp64_sums() const { return model_.fp64_sums_; }

    /// Forward reads `v`, and so does backward if `in_backward`.
    void reads(ValueId v, bool in_backward);
    /// Declares the step's output. Called once, after every `reads`.
    ValueId writes(std::int64_t cols, bool nonnegative);
    /// Declares the step's output like `writes`: an input of the model after dropout.
    ValueId writes_dropped(ValueId input);
    /// Forward drops elements of the step's output `v`, and backward the same of its gradient.
    void drops(ValueId v, const DropoutMask& mask) { model_.change(v).dropped = mask; }
    /// Backward reads the step's output `v`.
    void saves_output(ValueId v) { model_.change(v).saved = true; }
    /// Forward needs all rows of the values that it reads, so `offer` and `gather` are called.
    void gathers();
    /// Backward may need rows of other ranks, so `backward_offer` is called. `backward_rows` and
    /// `end_backward` may be called as late as those of a step that works row by row.
    void pulls() { model_.backward_.back() = Backward::pulls; }
    /// A row of the inputs' gradients needs only that row of the output's. So backward is
    /// `backward_rows` and `end_backward`, which are called for each block of rows when the next
    /// step that does otherwise needs the block, and when it has all rows.
    void row_by_row() { model_.backward_.back() = Backward::row_by_row; }
    /// Backward overwrites the output's gradient with the gradient of `v`. No other step may read
    /// `v`, and `writes` comes first.
    void overwrites_gradient(ValueId v);

    /// Declares the parameter "STEP.NAME" and returns its index.
    int parameter(std::string_view name, std::int64_t rows, std::int64_t cols, ParameterKind kind);
    /// Declares the statistic "STEP.NAME", a vector that is part of the model and has no gradient,
    /// and returns its index.
    int statistic(std::string_view name, std::int64_t cols, float initial);
    /// Training sums this many fp64 values over ranks in an epoch.
    void sums_over_ranks(std::int64_t values) { model_.rank_sums_ += values; }
    /// Declares the exchange "STEP.forward" or "STEP.backward" and returns its id.
    /// `groups` groups of columns, which divide `cols`, have parameters of their own.
    int site(Direction direction, std::int64_t cols, bool nonnegative, std::int64_t exact_cols = 0,
             int groups = 1);
    /// The exchange `site` sends rows of `v` or of its gradient, so columns that the dropout of `v`
    /// drops need not travel (Site::dropped).
    void sends(int site, ValueId v);
    /// Backward reads the rows that the forward exchange `site` has sent (Halo::kept).
    void keeps_sent(int site) { model_.sites_[static_cast<std::size_t>(site)].keeps_sent = true; }
    /// Declares a nodes x cols matrix with values of `value_bytes` bytes.
    Scratch scratch(std::int64_t cols, Uses uses, std::int64_t value_bytes = sizeof(float),
                    MatrixRows rows = MatrixRows::inner);
    /// Declares the scratch of sums over neighbours of `cols` columns in forward, and also in
    /// backward if `backward`.
    SumScratch sum_scratch(std::int64_t cols, bool backward);
    /// Declares an fp32 matrix that forward saves for backward: nodes x cols, or cols x nodes if
    /// `by_column`.
    Saved saves(std::int64_t cols, bool by_column = false, MatrixRows of = MatrixRows::inner);
    /// Declares an fp32 matrix of a fixed number of rows, which forward writes and backward reads.
    Saved saves_rows(std::int64_t rows, std::int64_t cols);

   private:
    Composition& model_;
  };

 private:
  Value& change(ValueId v) { return values_[static_cast<std::size_t>(v)]; }
  ValueId add_value(Value value);
  [[noreturn]] void refuse(const std::string& what) const;
  void begin_step(std::string name, int layer);
  ValueId end_step();

  bool fp64_sums_, bf16_rows_, partial_sums_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<bool> gathers_;
  std::vector<Backward> backward_;
  std::vector<Value> values_;
  std::vector<Site> sites_;
  std::vector<ScratchMatrix> scratch_;
  std::vector<SavedMatrix> saved_;
  Parameters parameters_;
  std::int64_t rank_sums_ = 0;
  ValueId logits_ = kNoValue;
  ValueId embeddings_ = kNoValue;
  // Name, layer and counts of the step that `add` is making.
  std::string name_;
  int layer_ = 0;
  int parameters_before_ = 0;
  std::size_t values_before_ = 0;
};

using Declare = Composition::Declare;

}  // namespace heliograph
