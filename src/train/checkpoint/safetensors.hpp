#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/state_file.hpp"
#include "train/file_layer.hpp"

namespace heliograph {

/// An fp32 tensor in row-major order; `values` is not owned.
struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<float> values;
};

/// Writes tensors in the safetensors format: the length of the header as a little-endian 64-bit
/// number, a JSON header padded to 8 bytes, and the tensors in order without gaps. The header's
/// metadata hold the XXH64 of each tensor. Throws what the sink throws.
FileRecord write_safetensors(std::unique_ptr<FileSink> sink, std::span<const NamedTensor> tensors);

/// A file that `write_safetensors` wrote. The file is mapped while the object lives.
class Safetensors {
 public:
  /// Checks every byte against `record`. Throws Error(bad_input) that names the file and the
  /// first tensor at fault.
  Safetensors(std::filesystem::path path, const FileRecord& record);

  /// Copies every tensor of the file to the tensor of the same name in `into`.
  /// Throws Error(mismatch) that names a tensor, before anything is copied, unless the file and
  /// `into` have the same names and shapes.
  void load(std::span<const NamedTensor> into) const;

 private:
  struct Stored {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::span<const std::byte> bytes;
  };
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<Stored> tensors_;
};

}  // namespace heliograph
