#pragma once

#include <filesystem>
#include <string>

#include "graph/io/csr_members.hpp"
#include "graph/io/npy.hpp"

// Variables of MATLAB 5 MAT-files (save -v6 and -v7, scipy.io.savemat), little endian. Each
// function throws Error(bad_input) that names the file, the variable and the fault. Variables of
// other names are skipped. Version 7.3 is HDF5 and is refused.

namespace heliograph {

/// Reads a full matrix of real numbers, rows x columns.
NpyArray read_mat_matrix(const std::filesystem::path& file, const std::string& variable);

/// Reads the entries of a sparse matrix, whose values are not read. MATLAB stores it by columns, so
/// the result is the CSR matrix of its transpose: row j lists the i of its entries (i, j).
CsrMembers read_mat_sparse(const std::filesystem::path& file, const std::string& variable);

}  // namespace heliograph
