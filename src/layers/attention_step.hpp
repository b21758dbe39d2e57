#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// What the steps of graph attention share: heads side by side or their mean, a bias, and the
/// dropout of weights.
class AttentionStep : public Step {
 public:
  struct Options {
    ValueId x = kNoValue;
    /// Whether x is an input of the model with the rows of inner nodes, then those of halo nodes.
    bool has_halo = false;
    std::int64_t cols = 0;  ///< Columns of all heads together.
    int heads = 1;          ///< Divides `cols`.
    bool average = false;   ///< y is the mean of the heads.
    bool bias = false;
    float slope = 0.2F;         ///< Of LeakyReLU below 0.
    std::uint32_t dropout = 0;  ///< Of weights, with probability dropout / 2^16.
  };

  void forward(const Pass& pass, RowRange rows) override;

 protected:
  explicit AttentionStep(const Options& options)
      : options_(options), out_(options.average ? options.cols / options.heads : options.cols) {}
  /// Declares the bias, that the step gathers, pulls and reads x, y, and what backward needs of the
  /// heads' outputs.
  void declare_output(Declare& declare);

  /// The nodes that have rows of products with x.
  MatrixRows rows_of_x() const { return options_.has_halo ? MatrixRows::all : MatrixRows::inner; }
  /// The share of a head's output in y.
  float share() const { return options_.average ? 1.0F / static_cast<float>(options_.heads) : 1; }
  /// The dropout of a block's entries, of which the targets computed their outputs in `epoch`.
  EdgeDropout dropout(const Pass& pass, Direction direction, bool halo, std::int64_t epoch) const;
  /// That of Shard::halo_sources in this epoch.
  EdgeDropout halo_source_dropout(const Pass& pass) const;
  /// The heads' outputs side by side, which forward makes and backward reads.
  MatrixView heads_output(const Pass& pass) const;
  ConstMatrixView saved_heads(const Pass& pass) const;

  /// The epoch in which halo targets computed the gradients that this pass uses.
  std::int64_t target_epoch(const Pass& pass) const;
  /// The epoch of the sources from which they computed them.
  std::int64_t source_epoch(const Pass& pass) const;
  /// Those sources, as this rank sent them (Halo::kept).
  KeptRows sent_sources(const Pass& pass) const;

  Options options_;
  int forward_site_ = -1, backward_site_ = -1;
  std::int64_t out_;  ///< Columns of y.
  ValueId y_ = kNoValue;
  bool last_ = false;  ///< x has no gradient.
  int bias_ = -1;

 private:
  std::uint64_t dropout_key_ = 0;
  Saved heads_;  ///< The heads' outputs, if y is their mean or has a bias.
};

}  // namespace heliograph
