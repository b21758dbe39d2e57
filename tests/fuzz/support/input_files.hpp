#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace heliograph::fuzz {

/// The files that an input of a fuzz target stands for, in a folder that lasts as long as the
/// object. An input is "@@ NAME\n" and the bytes of the file NAME, up to the next "@@ ", and so on.
/// So a mutation stays within one file, and text is legible (docs/fuzzing.md). Checksums would stop
/// nearly every mutation, so they are made here:
/// - {{bytes NAME}} and {{xxh64 NAME}} stand for size and XXH64 of a file written before, and
///   {{xxh64}} for the XXH64 of what stands before the last comma in the same file.
/// - X.npz/MEMBER is a member of the archive X.npz, which is stored without compression.
/// - X.state/SECTION is a section of the state file X.state.
/// - X.safetensors/header and X.safetensors/data are the JSON and the bytes of the tensors.
class InputFiles {
 public:
  InputFiles(const std::uint8_t* data, std::size_t size);
  ~InputFiles();
  InputFiles(const InputFiles&) = delete;
  InputFiles& operator=(const InputFiles&) = delete;

  /// Whether the input begins with a name and has only names that are allowed. If not, there is no
  /// file.
  bool valid() const { return valid_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Of the first file, in the folder.
  const std::filesystem::path& first() const { return first_; }
  /// The bytes of the file "options", which is not written; empty if there is none.
  const std::string& options() const { return options_; }

 private:
  bool parse(std::string_view input);
  void write(const std::string& name, std::string bytes);

  struct File {
    std::string name, bytes;
  };
  std::vector<File> files_;
  std::filesystem::path folder_, first_;
  std::string options_;
  bool valid_ = false;
};

}  // namespace heliograph::fuzz
