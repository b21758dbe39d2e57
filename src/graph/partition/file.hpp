#pragma once

#include <cstdint>
#include <filesystem>

namespace heliograph {

/// The forms of a partition in files, which the name of the file decides.
enum class PartitionForm : std::uint8_t {
  lines,  ///< METIS's: one owner a line.
  array,  ///< *.npy: an integer for each node.
  dgl,    ///< partition_meta.json with the number of parts; _N.txt beside it is as METIS's.
};

inline constexpr const char* kDglMeta = "partition_meta.json";

struct PartitionFile {
  PartitionForm form;
  std::filesystem::path owners;  ///< The file that holds the owners.
};

/// How a partition is written to `file` and read from it.
PartitionFile partition_file(const std::filesystem::path& file);

}  // namespace heliograph
