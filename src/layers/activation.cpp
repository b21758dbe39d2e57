#include "layers/activation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heliograph {
namespace {

constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

/// The inverse deviation of a column. An overflowing variance would scale the column to 0
/// unnoticed; NaN is reported.
float inverse_deviation(double variance) {
  if (!std::isfinite(variance)) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(1.0 / std::sqrt(std::max(variance, 0.0) + kEpsilon));
}

}  // namespace

Activation::Activation(Declare& declare, const Options& options)
    : options_(options), cols_(declare.value(options.y).cols) {
  if (options.bias && !batch()) {
    bias_ = declare.parameter("bias", 1, cols_, ParameterKind::bias);
  }
  if (options.norm != NormLayer::none) {
    gain_ = declare.parameter("norm_gain", 1, cols_, ParameterKind::gain);
    shift_ = declare.parameter("norm_shift", 1, cols_, ParameterKind::bias);
  }
  if (batch()) {
    declare.gathers();
    running_mean_ = declare.statistic("running_mean", cols_, 0);
    declare.statistic("running_variance", cols_, 1);
    statistics_ = declare.saves_rows(4, cols_);
    sums_.resize(2 * static_cast<std::size_t>(cols_) + 1);
    declare.sums_over_ranks(2 * static_cast<std::int64_t>(sums_.size()));
    values_.resize(second() + static_cast<std::size_t>(cols_));
  } else if (options.norm == NormLayer::layer) {
    statistics_ = declare.saves(2, true);
  }
  declare.reads(options.y, true);
  if (options.residual != kNoValue) declare.reads(options.residual, false);
  const bool raises = options.function == ActivationFunction::relu;
  out_ = declare.writes(cols_, raises && (options.residual == kNoValue ||
                                          declare.value(options.residual).nonnegative));
  declare.drops(out_, options.dropout);
  if (!options.other_readers) declare.overwrites_gradient(options.y);
  if (!batch()) declare.row_by_row();
}

NormAct Activation::norm_act(const Pass& pass, RowRange rows) const {
  NormAct p;
  if (bias_ >= 0) p.bias = pass.parameter(bias_).data;
  p.activation = options_.function;
  p.dropout = dropout_of(options_.dropout, pass, rows);
  if (gain_ < 0) return p;
  p.gain = pass.parameter(gain_).data;
  p.shift = pass.parameter(shift_).data;
  p.by_column = batch();
  const MatrixView statistics = pass.saved(statistics_);
  p.mean = statistics.row(0) + (batch() ? 0 : rows.begin);
  p.rstd = statistics.row(1) + (batch() ? 0 : rows.begin);
  return p;
}

double Activation::sum_over_ranks(const Pass& pass) {
  sums_.back() = static_cast<double>(pass.graph.rows());
  if (pass.context.rank_sum != nullptr) pass.context.rank_sum->sum(sums_);
  return sums_.back();
}

void Activation::read_values(const Pass& pass, const float* from) {
  pass.kernels().device().download(values_.data(), from, values_.size() * sizeof(float));
}

void Activation::write_values(const Pass& pass, float* to) const {
  pass.kernels().device().upload(to, values_.data(), values_.size() * sizeof(float));
}

void Activation::offer(const Pass& pass, RowRange rows) {
  if (!pass.training()) return;
  if (rows.begin == 0) std::ranges::fill(sums_, 0.0);
  pass.kernels().column_moments(pass.read(options_.y).row_range(rows).dense,
                                pass.statistic(running_mean_).data,
                                std::span(sums_).first(sums_.size() - 1));
}

void Activation::gather(const Pass& pass) {
  const auto cols = static_cast<std::size_t>(cols_);
  const std::span<float> mean(values_.data(), cols), variance(values_.data() + second(), cols);
  float* const running = pass.statistic(running_mean_).data;
  read_values(pass, running);
  if (pass.training()) {
    const double rows = sum_over_ranks(pass);
    for (std::size_t c = 0; c < cols; ++c) {
      // Moments are about the running mean.
      const double shift = sums_[c] / rows;
      const double biased = sums_[cols + c] / rows - shift * shift;
      const double average = static_cast<double>(mean[c]) + shift;
      const double unbiased = biased * rows / std::max(rows - 1, 1.0);
      sums_[c] = average;
      sums_[cols + c] = biased;
      mean[c] = static_cast<float>(static_cast<double>(mean[c]) + kMomentum * shift);
      variance[c] = static_cast<float>(static_cast<double>(variance[c]) * (1 - kMomentum) +
                                       kMomentum * unbiased);
    }
    write_values(pass, running);
    std::copy_n(sums_.begin(), cols, mean.begin());
    for (std::size_t c = 0; c < cols; ++c) variance[c] = inverse_deviation(sums_[cols + c]);
  } else {
    for (float& v : variance) v = inverse_deviation(v);
  }
  write_values(pass, pass.saved(statistics_).row(0));
}

void Activation::forward(const Pass& pass, RowRange rows) {
  const bool adds = options_.residual != kNoValue;
  pass.kernels().norm_act_forward(
      pass.read(options_.y).row_range(rows).dense, norm_act(pass, rows),
      adds ? pass.read(options_.residual).row_range(rows).dense : ConstMatrixView{},
      pass.write(out_).row_range(rows));
}

MatrixView Activation::residual_gradient(const Pass& pass, RowRange rows) const {
  if (options_.residual == kNoValue || !pass.has_gradient(options_.residual)) return {};
  return pass.gradient_part(options_.residual).row_range(rows);
}

NormActGradients Activation::gradients(const Pass& pass, RowRange rows) const {
  NormActGradients g;
  g.accumulate = rows.begin > 0;
  if (bias_ >= 0) g.bias = pass.parameter_gradient(bias_);
  if (gain_ < 0) return g;
  g.gain = pass.parameter_gradient(gain_);
  g.shift = pass.parameter_gradient(shift_);
  return g;
}

void Activation::backward(const Pass& pass) {
  if (!batch()) return;
  Kernels& k = pass.kernels();
  const MatrixView d = pass.gradient(out_);
  const RowRange all{0, d.rows};
  const NormActGradients g = gradients(pass, all);
  const ConstMatrixView y = pass.saved(options_.y).dense;
  const NormAct p = norm_act(pass, all);
  k.norm_act_backward(y, p, d, residual_gradient(pass, all), g);
  // Announced gradients become sums over ranks, so they are read before.
  const auto cols = static_cast<std::size_t>(cols_);
  const auto copy = [&](const auto* gain, const auto* shift) {
    std::copy_n(gain, cols, sums_.data());
    std::copy_n(shift, cols, sums_.data() + cols);
  };
  if (g.gain.f64 != nullptr) {
    copy(g.gain.f64, g.shift.f64);
  } else {
    read_values(pass, g.gain.f32);
    copy(values_.data(), values_.data() + second());
  }
  const double rows = sum_over_ranks(pass);
  for (std::size_t c = 0; c < cols; ++c) {
    values_[c] = static_cast<float>(sums_[c] / rows);
    values_[second() + c] = static_cast<float>(sums_[cols + c] / rows);
  }
  write_values(pass, pass.saved(statistics_).row(2));
  const MatrixView statistics = pass.saved(statistics_);
  k.batch_norm_backward(y, p, statistics.row(2), statistics.row(3), d);
}

void Activation::backward_rows(const Pass& pass, RowRange rows) {
  Kernels& k = pass.kernels();
  const MatrixView d = pass.gradient(out_).row_range(rows);
  if (!batch()) {
    k.norm_act_backward(pass.saved(options_.y).row_range(rows).dense, norm_act(pass, rows), d,
                        residual_gradient(pass, rows), gradients(pass, rows));
  }
  if (options_.other_readers) {
    k.axpby(1, d, 0, pass.gradient_part(options_.y).row_range(rows));
  }
}

void Activation::end_backward(const Pass& pass) {
  for (const int parameter : {bias_, gain_, shift_}) {
    if (parameter >= 0) pass.complete(parameter);
  }
}

}  // namespace heliograph
