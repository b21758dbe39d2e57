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

/// Writes tensors in the safetensors format: the header's length as a little-endian 64-bit number,
/// a JSON header padded to 8 bytes, the tensors in order without gaps. Their XXH64 stand in the
/// header's metadata. Throws what the sink throws.
FileRecord write_safetensors(std::unique_ptr<FileSink> sink, std::span<const NamedTensor> tensors);

/// A safetensors file with fp32 tensors, as `write_safetensors` leaves it.
class Safetensors {
 public:
  /// Checks every byte against `record`. Throws Error(bad_input) that names the file and the
  /// first tensor at fault.
  Safetensors(std::filesystem::path path, const FileRecord& record);

  /// Copies every tensor of the file; the two sets of names and shapes must be the same.
  /// Throws Error(mismatch) that names the tensor, and changes nothing.
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
