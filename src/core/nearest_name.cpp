#include "core/nearest_name.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace heliograph {
namespace {

char folded(char c) {
  if (c == '_') return '-';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: two back for swaps, one back, and the row being filled.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = above[j - 1] + (folded(a[i - 1]) == folded(b[j - 1]) ? 0 : 1);
      row[j] = std::min({replace, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  int most = std::max(1, static_cast<int>(name.size()) / 3);
  for (const std::string& candidate : candidates) {
    const int steps = edit_distance(name, candidate);
    if (steps > most) continue;
    most = steps - 1;
    best = candidate;
  }
  return best;
}

}  // namespace heliograph
