#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heliograph/model.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/file_layer.hpp"

namespace heliograph {

/// The contents of a safetensors file: fp32 tensors, and a text that its metadata hold.
struct SafetensorsContents {
  std::vector<Tensor> tensors;
  std::string text;
};

/// Writes tensors in the safetensors format: the length of the header as a little-endian 64-bit
/// number, a JSON header padded to 8 bytes, and the tensors in order without gaps. The header's
/// metadata hold `contents.text` as "model", and the XXH64 of each tensor and of the header itself.
/// Throws what the sink throws.
FileRecord write_safetensors(std::unique_ptr<FileSink> sink, const SafetensorsContents& contents);

/// Reads what `write_safetensors` wrote and checks every checksum, and `record` unless it is null.
/// Throws Error(bad_input) that names the file and the first tensor at fault.
SafetensorsContents read_safetensors(const std::filesystem::path& path, const FileRecord* record);

}  // namespace heliograph
