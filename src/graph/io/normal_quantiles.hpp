#pragma once

#include <span>
#include <vector>

// What scikit-learn's SimpleImputer(strategy="most_frequent") and
// QuantileTransformer(output_distribution="normal", subsample=None) make of a column in fp32.

namespace heliograph {

/// The numbers of a column without NaN, ascending.
std::vector<float> sorted_numbers(std::span<const float> column);

/// Replaces each NaN by the most frequent number, the least of several that are as frequent.
/// `sorted` holds the numbers of the column, at least one.
void fill_missing(std::span<float> column, std::span<const float> sorted);

/// Replaces each number by that of the standard normal distribution which has the same rank among
/// `sorted`, at most 5.2 from 0. Ranks come from 1000 quantiles, or one for each row if the column
/// has fewer, and are linear between them. `sorted` and `column` have at least one number, and
/// `column` no NaN.
void to_normal_quantiles(std::span<float> column, std::span<const float> sorted);

}  // namespace heliograph
