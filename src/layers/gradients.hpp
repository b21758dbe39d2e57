#pragma once

#include "layers/step.hpp"

namespace heliograph {

// Parts of backward that several steps share.

/// Begins out = A^T rows, where `site` exchanges the rows, for a step that has declared that it
/// pulls; GraphOperator::add_halo ends it. Awaits each block of rows, calls `make` for it and
/// offers it to the halo, then calls `overlap` as GraphOperator::begin_sum does.
void pull(const Pass& pass, const Site& site, ConstMatrixView rows,
          FunctionRef<void(RowRange)> make, MatrixView out, const SumScratch& scratch,
          FunctionRef<void()> overlap);

/// Makes and announces the gradient x^T d of parameter `weight`. `last`: no step below this one has
/// gradients behind which its sum over ranks could hide, so it is made and announced in blocks; the
/// step must not read values of parameters that it has announced after this.
void weight_gradient(const Pass& pass, const FeatureView& x, ConstMatrixView d, int weight,
                     bool last);

/// Makes and announces the gradient of the bias `bias`, which was added to a value with gradient
/// d. Does nothing if `bias` is -1.
void bias_gradient(const Pass& pass, ConstMatrixView d, int bias);

}  // namespace heliograph
