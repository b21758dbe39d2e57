#include "graph/io/array_source.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "core/plural.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

bool is_known(const std::string& name) {
  const std::array<ArrayNames, 13> all{
      kFeatureNames, kEdgeNames,       kLabelNames, kClassNames,   kTrainMasks,
      kMatrixNames,  kValidationMasks, kTestMasks,  kTrainIndices, kValidationIndices,
      kTestIndices,  kEndNames,        kWeightNames};
  return std::ranges::any_of(
      all, [&](ArrayNames names) { return std::ranges::find(names, name) != names.end(); });
}

/// "a, b and c", or "nothing".
std::string list_text(const std::vector<std::string>& names, const char* last = "and") {
  return names.empty() ? "nothing" : legible(listed(names, last));
}

}  // namespace

const char* ArraySource::first_of(ArrayNames names) const {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return has(name); });
  return found == names.end() ? nullptr : *found;
}

std::optional<NpyArray> ArraySource::find(ArrayNames names) const {
  const char* const name = first_of(names);
  if (name == nullptr) return std::nullopt;
  return read(name);
}

NpyArray ArraySource::require(const char* what, ArrayNames names) const {
  if (auto found = find(names)) return *found;
  refuse_missing(what, names, "");
}

void ArraySource::refuse_missing(const char* what, ArrayNames names, const char* other) const {
  std::vector<std::string> wanted(names.begin(), names.end());
  if (*other != '\0') wanted.emplace_back(other);
  std::vector<std::string> known, unknown;
  for (const std::string& name : names_) (is_known(name) ? known : unknown).push_back(name);
  unknown.insert(unknown.end(), tables_.begin(), tables_.end());
  refuse(where_, "has no {}, which may be named {}; found: {}; left unread: {}{}", what,
         list_text(wanted, "or"), list_text(known), list_text(unknown),
         tables_.empty() ? "" : "; arrays are read from .npy files, which numpy.save writes");
}

void ArraySource::log_unread(const LogCallback& log) const {
  std::vector<std::string> unread;
  for (const std::string& name : names_) {
    if (!read_.contains(name)) unread.push_back(title(name));
  }
  unread.insert(unread.end(), tables_.begin(), tables_.end());
  if (unread.empty() || !log) return;
  log(LogLevel::info, fmt::format("{}: left unread: {}", where_, list_text(unread)));
}

FolderArrays::FolderArrays(const std::filesystem::path& folder)
    : ArraySource(folder.empty() ? "." : folder.string()) {
  for (const auto& entry : std::filesystem::directory_iterator(where())) {
    const std::string stem = entry.path().stem().string();
    const auto extension = entry.path().extension();
    const bool table = extension == ".csv" || extension == ".tsv" || extension == ".npz" ||
                       (is_known(stem) && extension != ".mtx");
    if (extension == ".npy") {
      names_.insert(stem);
    } else if (table && stem != "edges" && entry.is_regular_file()) {
      tables_.insert(entry.path().filename().string());
    }
  }
}

NpyArray FolderArrays::load(const std::string& name) const {
  return read_npy(std::filesystem::path(where()) / (name + ".npy"));
}

}  // namespace heliograph
