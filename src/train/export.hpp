#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graph/io/npy.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/model.hpp"

namespace heliograph {

// What `heliograph export` writes of a run. The extension of a file decides its form. Every
// function that writes a file does it under a temporary name that is then renamed, and throws
// Error: usage (the file cannot be created) or resource (disk full).

/// What a run says about each node, named as its file in the run directory without ".npy":
/// predictions, logits or embeddings.
using NodeValues = NpyArray;

/// The values of this name that the run in `run` kept; nothing if it kept none. Throws
/// Error(bad_input) that names a damaged file.
std::optional<NodeValues> kept_values(const std::filesystem::path& run, const std::string& name);

/// The same, computed by `model` on one rank. Throws as Model::predict does.
NodeValues computed_values(const Model& model, const Dataset& dataset, const std::string& name,
                           const LogCallback& log);

/// Writes one row for each node: *.npy, *.safetensors (fp32 values only, as one tensor of their
/// name) or *.csv, whose columns are the node and the values under `headings`, or numbered where
/// there are none.
void write_values(const std::filesystem::path& file, const NodeValues& values,
                  const std::vector<std::string>& headings);

/// Writes a .csv with node, prediction, label and role of each node. Classes have their names, or
/// their numbers without; multi-label data have a column for the prediction and one for the label
/// of each class. The label of an unlabelled node is empty. Throws Error(mismatch) if `predictions`
/// does not fit the data set.
void write_prediction_table(const std::filesystem::path& file, const NodeValues& predictions,
                            const Dataset& dataset, const Split& split);

/// Writes the weights of `model`: *.npz has an array for each, any other file is as Model::save
/// writes it.
void write_weights(const std::filesystem::path& file, const Model& model);

}  // namespace heliograph
