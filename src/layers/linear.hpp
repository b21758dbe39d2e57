#pragma once

#include <string>
#include <vector>

#include "layers/composition.hpp"

namespace heliograph {

/// y = the sum of x W over one or several values x, each with a weight of its own, plus an optional
/// bias. With a share c below 1, y = (1 - c) x + c x W (GCNII: Chen et al., 2020, equation 5, where
/// c is beta).
class Linear final : public Step {
 public:
  struct Term {
    ValueId x;
    std::string weight;  ///< The parameter's name.
  };
  struct Options {
    std::vector<Term> terms;
    std::int64_t out = 0;  ///< Columns of y.
    bool bias = false;
    float share = 1;  ///< Below 1 only for one term whose weight is square, without bias.
  };
  Linear(Declare& declare, const Options& options);

  void forward(const Pass& pass, RowRange rows) override;
  void backward_rows(const Pass& pass, RowRange rows) override;
  void end_backward(const Pass& pass) override;

 private:
  Options options_;
  ValueId y_;
  std::vector<int> weights_;
  int bias_ = -1;
  bool last_;       ///< No input has a gradient.
  Scratch scaled_;  ///< share dL/dy.
};

}  // namespace heliograph
