#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// A form in which data sets come.
struct InputForm {
  InputFormat format;
  const char* text;  ///< What it consists of, for messages; null: a directory with `files`.
  /// Whether an existing path has this form, by the names of its files. May throw
  /// std::filesystem::filesystem_error.
  bool (*recognises)(const std::filesystem::path& path);
  Dataset (*read)(const std::filesystem::path& path, const ImportOptions& options,
                  ImportCounts& counts);
  /// The files of a directory that is a data set only as a whole.
  std::vector<std::string> files = {};
  bool has_targets = false;  ///< Whether ImportOptions::target applies.
};

/// All forms, in the order in which they are looked for.
std::span<const InputForm> input_forms();

/// The first form that recognises an existing path; null if there is none.
const InputForm* form_of(const std::filesystem::path& path);

}  // namespace heliograph
