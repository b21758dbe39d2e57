#pragma once

#include <filesystem>
#include <memory>

#include "heliograph/model.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/file_layer.hpp"

namespace heliograph {

/// Writes the file that `Model::save` does. Throws what the sink throws.
FileRecord write_model(std::unique_ptr<FileSink> sink, const Model& model);

/// Reads and checks a file that `write_model` wrote; `record` (may be null) is what a manifest says
/// about it. Throws Error(bad_input) that names the file.
Model read_model(const std::filesystem::path& file, const FileRecord* record);

/// Throws Error(mismatch) that names `origin` unless the model fits a data set with so many feature
/// columns and classes of this task.
void require_fit(const Model& model, const std::string& origin, std::int64_t feature_cols,
                 Task task, std::int32_t classes);

/// A hash of weights and statistics.
std::uint64_t hash_of(const Model& model);

}  // namespace heliograph
