#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/scipy_graph.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

using nlohmann::json;

/// Reads class_map.json, {"0": 3, ...} or, with a flag for each class, {"0": [0, 1, ...], ...}. It
/// is read value by value, since as a whole it would take sixteen bytes a number.
class ClassMap : public json::json_sax_t {
 public:
  ClassMap(const fs::path& file, std::int64_t nodes)
      : file_(file),
        nodes_(nodes),
        mapped_(MappedFile::open(file)),
        seen_(static_cast<std::size_t>(nodes)) {
    if (!json::sax_parse(mapped_->text(), this)) refuse(file_, "is damaged JSON: {}", error_);
  }

  NpyArray labels() {
    if (given_ != nodes_) refuse(file_, "has classes for {} of {} nodes", given_, nodes_);
    if (lists_) return as_array(file_.string(), std::move(flags_), {nodes_, cols_});
    return as_array(file_.string(), std::move(classes_), {nodes_});
  }

  bool start_object(std::size_t) override {
    if (begun_) refuse_found("an object");
    return begun_ = true;
  }
  bool key(std::string& text) override {
    const auto node = parse_number<std::int64_t>(text);
    if (!node || *node < 0 || *node >= nodes_) {
      refuse(file_, "'{}' is not a node in [0, {})", legible(text), nodes_);
    }
    node_ = *node;
    if (seen_[static_cast<std::size_t>(node_)]) refuse(file_, "gives node {} twice", node_);
    seen_[static_cast<std::size_t>(node_)] = true;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!begun_ || in_list_ || (given_ > 0 && !lists_)) refuse_found("a list");
    in_list_ = lists_ = true;
    list_.clear();
    return true;
  }
  bool end_array() override {
    const auto flags = static_cast<std::int64_t>(list_.size());
    if (given_ == 0) {
      cols_ = flags;
      // A flag takes two bytes of the file, so that a short file cannot claim much memory.
      if (cols_ > static_cast<std::int64_t>(mapped_->text().size()) / 2 / nodes_) {
        refuse(file_, "has {} flags of node {}, too many for {} nodes", cols_, node_, nodes_);
      }
      flags_.resize(static_cast<std::size_t>(nodes_ * cols_));
    }
    if (flags != cols_) {
      refuse(file_, "node {} has {} flags, where others have {}", node_, flags, cols_);
    }
    std::ranges::copy(list_, flags_.begin() + node_ * cols_);
    in_list_ = false;
    ++given_;
    return true;
  }
  bool number_integer(json::number_integer_t value) override { return take(value); }
  bool number_unsigned(json::number_unsigned_t value) override {
    return take(value > kLargest ? kLargest : static_cast<std::int64_t>(value));
  }
  bool number_float(json::number_float_t value, const std::string& text) override {
    if (std::abs(value) > kLargest || value != std::trunc(value)) {
      refuse(file_, "node {} has the class {}, which is not a whole number", node_, legible(text));
    }
    return take(static_cast<std::int64_t>(value));
  }
  bool boolean(bool value) override { return take(value ? 1 : 0); }
  bool end_object() override { return true; }
  bool null() override { refuse_found("null"); }
  bool string(std::string& text) override {
    refuse_found(fmt::format("the text '{}'", legible(text)));
  }
  bool binary(json::binary_t&) override { refuse_found("bytes"); }
  bool parse_error(std::size_t read, const std::string&, const json::exception& error) override {
    if (read > 0 && mapped_->text().substr(read - 1).starts_with("NaN")) {
      refuse(file_, "is damaged JSON at node {}: NaN is no JSON; -1 marks a node without a label",
             node_);
    }
    error_ = legible(reason_of(error));
    return false;
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 40;

  /// Refuses what stands where a class, a list of flags or a flag belongs.
  [[noreturn]] void refuse_found(const std::string& found) const {
    if (!begun_) refuse(file_, "is not an object from nodes to classes or to lists of flags");
    refuse(file_, "node {} has {} instead of {}; -1 marks a node without a label", node_, found,
           in_list_      ? "a flag, 0 or 1"
           : given_ == 0 ? "a class or a list of flags"
           : lists_      ? "a list of flags, as others have"
                         : "a class, as others have");
  }
  bool take(std::int64_t value) {
    if (!begun_ || in_list_ != lists_) refuse_found(std::to_string(value));
    if (in_list_) {
      if (value < -1 || value > 1) {
        refuse(file_, "node {} has the flag {}, which is not 0 or 1", node_, value);
      }
      list_.push_back(static_cast<std::int8_t>(value));
      return true;
    }
    classes_.resize(static_cast<std::size_t>(nodes_));
    classes_[static_cast<std::size_t>(node_)] = value;
    ++given_;
    return true;
  }

  const fs::path& file_;
  std::int64_t nodes_, node_ = 0, given_ = 0, cols_ = 0;
  std::shared_ptr<const MappedFile> mapped_;
  std::vector<bool> seen_;
  bool begun_ = false, lists_ = false, in_list_ = false;
  std::vector<std::int64_t> classes_;
  std::vector<std::int8_t> list_, flags_;
  std::string error_;
};

/// role.json: {"tr": [nodes], "va": [nodes], "te": [nodes]}.
SplitArrays read_roles(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  if (nests_too_deeply(mapped->text())) refuse(file, "nests lists too deeply");
  json object;
  try {
    object = parse_json<json>(mapped->text());
  } catch (const json::exception& error) {
    refuse(file, "is damaged JSON: {}", legible(reason_of(error)));
  }
  const auto nodes = [&](const char* name) {
    const json list = object.is_object() ? object.value(name, json()) : json();
    if (!list.is_array()) refuse(file, "has no list of nodes \"{}\"", name);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].is_number_integer()) continue;
      refuse(file, "{}: entry {} is {}, which is not the number of a node", name, i,
             legible(json_text(list[i])));
    }
    auto values = list.get<std::vector<std::int64_t>>();
    const auto count = static_cast<std::int64_t>(values.size());
    return as_array(fmt::format("{}: {}", file.string(), name), std::move(values), {count});
  };
  return {nodes("tr"), nodes("va"), nodes("te")};
}

}  // namespace

bool is_graphsaint(const fs::path& path) {
  return fs::exists(path / "adj_full.npz") && fs::exists(path / "class_map.json");
}

Dataset read_graphsaint(const fs::path& directory, const ImportOptions& options,
                        ImportCounts& counts) {
  Dataset dataset;
  const fs::path features = directory / "feats.npy", classes = directory / "class_map.json";
  dataset.features = dense_features(read_npy(features));
  const NpzArchive adjacency(directory / "adj_full.npz");
  const RowCount graph = rows_of_scipy_graph(adjacency);
  const std::int64_t nodes = dataset.features.rows;
  if (graph.rows != nodes) {  // The number of colons, one a node, tells which of the two is wrong.
    const std::int64_t listed = std::ranges::count(MappedFile::open(classes)->text(), ':');
    agree_on_nodes(
        {graph, {features.string(), nodes, dataset.features.cols}, {classes.string(), listed}});
  }
  dataset.graph = read_scipy_graph(adjacency, nodes, options, counts);
  dataset.labels = make_labels(ClassMap(classes, nodes).labels(), nodes, options.regression);
  if (may_have_splits(options, dataset.labels)) {
    dataset.splits =
        split_from_indices(read_roles(directory / "role.json"), dataset.labels, nodes, options.log);
  }
  compare_with_published(InputFormat::graphsaint, counts, options);
  return dataset;
}

}  // namespace heliograph
