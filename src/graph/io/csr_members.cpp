#include "graph/io/csr_members.hpp"

#include "graph/refuse.hpp"

namespace heliograph {

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
  const std::vector<std::int64_t>& offsets = triple.offsets;
  if (static_cast<std::int64_t>(offsets.size()) - 1 != triple.rows) {
    refuse(indptr.name, "holds {} values for {} rows", offsets.size(), triple.rows);
  }
  if (offsets.front() != 0) refuse(indptr.name, "does not start at 0");
  for (std::size_t r = 1; r < offsets.size(); ++r) {
    if (offsets[r] < offsets[r - 1]) refuse(indptr.name, "falls at row {}", r - 1);
  }
  if (offsets.back() != static_cast<std::int64_t>(triple.columns.size())) {
    refuse(indptr.name, "ends at {}, but there are {} indices", offsets.back(),
           triple.columns.size());
  }
  for (std::size_t i = 0; i < triple.columns.size(); ++i) {
    if (triple.columns[i] < 0 || triple.columns[i] >= triple.cols) {
      refuse(indices.name, "entry {} is {}, which is not in [0, {})", i, triple.columns[i],
             triple.cols);
    }
  }
  return triple;
}

}  // namespace heliograph
