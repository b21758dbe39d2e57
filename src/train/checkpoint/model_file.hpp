#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heliograph/log.hpp"
#include "heliograph/model.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/file_layer.hpp"

namespace heliograph {

/// The weights of a model and its statistics of features, as its files hold them.
std::vector<Tensor> tensors_of(const Model& model);

/// Writes the file that `Model::save` does. Throws what the sink throws.
FileRecord write_model(std::unique_ptr<FileSink> sink, const Model& model);

/// Reads and checks a file that `write_model` wrote; `record` (may be null) is what a manifest says
/// about it. Throws Error(bad_input) that names the file.
Model read_model(const std::filesystem::path& file, const FileRecord* record);

/// Throws Error(mismatch) that names `origin` unless the model fits a data set with so many feature
/// columns and classes of this task.
void require_fit(const Model& model, const std::string& origin, std::int64_t feature_cols,
                 Task task, std::int32_t classes);

/// Throws Error(mismatch) that names `origin` and the first class whose name differs, if both the
/// model and the data set name their classes.
void require_same_classes(const Model& model, const std::string& origin,
                          const std::vector<std::string>& names);

/// Warns that classes are matched by number if only one of the model and the data set, whose
/// classes have these names, names its classes. `log` may be empty.
void warn_of_unnamed_classes(const Model& model, const std::string& origin,
                             const std::vector<std::string>& names, const LogCallback& log);

/// The data set with its classes numbered as the model's, if both name them and nodes have one
/// class each. Throws Error(mismatch) as require_same_classes if the model lacks a class.
Dataset with_classes_of(const Model& model, const std::string& origin, Dataset dataset);

/// A sentence that says how the graph that the model was trained on differs from one of this kind,
/// and what to do; empty if it does not, if the model does not know, or if only edge weights differ
/// that the model ignores.
std::string why_other_graph(const Model& model, GraphKind kind);

/// A hash of weights and statistics.
std::uint64_t hash_of(const Model& model);

}  // namespace heliograph
