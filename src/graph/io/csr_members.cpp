#include "graph/io/csr_members.hpp"

#include "graph/io/from_one.hpp"
#include "graph/refuse.hpp"

namespace heliograph {

void check_csr(const CsrMembers& matrix, const std::string& indptr, const std::string& indices,
               const char* axis) {
  const std::vector<std::int64_t>& offsets = matrix.offsets;
  if (static_cast<std::int64_t>(offsets.size()) - 1 != matrix.rows) {
    refuse(indptr, "holds {} values for {} {}s", offsets.size(), matrix.rows, axis);
  }
  if (offsets.front() != 0) refuse(indptr, "does not start at 0");
  for (std::size_t r = 1; r < offsets.size(); ++r) {
    if (offsets[r] < offsets[r - 1]) refuse(indptr, "falls at {} {}", axis, r - 1);
  }
  if (offsets.back() != static_cast<std::int64_t>(matrix.columns.size())) {
    refuse(indptr, "ends at {}, but there are {} indices", offsets.back(), matrix.columns.size());
  }
  for (std::size_t i = 0; i < matrix.columns.size(); ++i) {
    if (matrix.columns[i] < 0 || matrix.columns[i] >= matrix.cols) {
      refuse(indices, "entry {} is {}, which is not in [0, {}){}", i, matrix.columns[i],
             matrix.cols, from_one_hint(fits_from_one(matrix.columns, matrix.cols), "indices"));
    }
  }
}

CsrMembers read_csr_members(const NpzArchive& archive, const std::string& prefix) {
  const NpyArray shape = archive.read(prefix + "shape");
  const NpyArray indices = archive.read(prefix + "indices");
  const NpyArray indptr = archive.read(prefix + "indptr");
  const std::vector<std::int64_t> extents = to_int64(shape);
  if (extents.size() != 2 || extents[0] < 0 || extents[1] < 0) {
    refuse(shape.name, "is not the shape of a matrix");
  }
  CsrMembers triple;
  triple.rows = extents[0];
  triple.cols = extents[1];
  triple.offsets = to_int64(indptr);
  triple.columns = to_int32(indices);
  check_csr(triple, indptr.name, indices.name);
  return triple;
}

}  // namespace heliograph
