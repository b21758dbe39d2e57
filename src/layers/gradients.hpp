#pragma once

#include "layers/step.hpp"

namespace heliograph {

// Parts of backward that several steps share.

/// Makes and announces the gradient x^T d of parameter `weight`. `last`: no step below this one has
/// gradients behind which its sum over ranks could hide, so it is made and announced in blocks; the
/// step must not read values of parameters that it has announced after this.
void weight_gradient(const Pass& pass, const FeatureView& x, ConstMatrixView d, int weight,
                     bool last);

/// Makes and announces the gradient of the bias `bias`, which was added to a value with gradient
/// d. Does nothing if `bias` is -1.
void bias_gradient(const Pass& pass, ConstMatrixView d, int bias);

}  // namespace heliograph
