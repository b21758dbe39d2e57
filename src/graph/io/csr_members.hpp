#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/io/npz.hpp"

namespace heliograph {

/// The structure of a CSR matrix, with checked offsets and columns.
struct CsrMembers {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> columns;

  /// Calls use(row, column, entry) for each entry.
  template <class Use>
  void for_each(Use&& use) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      for (auto i = static_cast<std::size_t>(offsets[row]);
           i < static_cast<std::size_t>(offsets[row + 1]); ++i) {
        use(static_cast<std::int32_t>(r), columns[i], i);
      }
    }
  }
};

/// Throws Error(bad_input) unless offsets and columns are those of a CSR matrix. `indptr` and
/// `indices` name them; `axis` is what the offsets are of.
void check_csr(const CsrMembers& matrix, const std::string& indptr, const std::string& indices,
               const char* axis = "row");

/// Reads the members PREFIXshape, PREFIXindices and PREFIXindptr of an archive, as SciPy names the
/// parts of a CSR matrix. Throws Error(bad_input) that names the member.
CsrMembers read_csr_members(const NpzArchive& archive, const std::string& prefix);

}  // namespace heliograph
