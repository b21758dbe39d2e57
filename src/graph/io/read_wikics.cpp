#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/canonical.hpp"
#include "graph/io/files.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

using nlohmann::json;

/// A list of numbers or, if `rows` is not empty, of lists of numbers.
struct Lists {
  std::vector<double> values;
  std::vector<std::size_t> rows;  ///< The length of each list.
};

/// The lists in a JSON object. They are read value by value, since as a whole they would take
/// sixteen bytes a number and more for each list.
class NumberLists : public json::json_sax_t {
 public:
  /// Reads the values of `keys`, and skips and notes others.
  NumberLists(const fs::path& file, std::span<const char* const> keys) : file_(file), keys_(keys) {
    const auto mapped = MappedFile::open(file);
    if (!json::sax_parse(mapped->text(), this)) refuse(file_, "is damaged JSON: {}", error_);
  }

  bool has(const char* key) const { return lists_.contains(key); }
  const std::vector<std::string>& skipped() const { return skipped_; }

  /// Throws Error(bad_input) if there is no such list.
  const Lists& at(const char* key) const {
    const auto found = lists_.find(key);
    if (found == lists_.end()) refuse(file_, "has no list {}", key);
    return found->second;
  }

  /// A list as an array of one axis, or one of lists, which must be equally long, of two.
  NpyArray array(const char* key) const {
    const Lists& lists = at(key);
    std::vector<std::int64_t> shape{std::ssize(lists.values)};
    if (!lists.rows.empty()) {
      const auto cols = static_cast<std::int64_t>(lists.rows[0]);
      shape = {std::ssize(lists.rows), cols};
      const auto other = std::ranges::find_if_not(
          lists.rows, [&](std::size_t size) { return size == lists.rows[0]; });
      if (other != lists.rows.end()) {
        refuse(file_, "{}: list {} has {} numbers, where the first has {}", key,
               other - lists.rows.begin(), *other, cols);
      }
    }
    return as_array(fmt::format("{}: {}", file_.string(), key), lists.values, std::move(shape));
  }

  bool start_object(std::size_t) override {
    require(depth_ == 0 || skipping_);
    return deeper();
  }
  bool key(std::string& text) override {
    if (depth_ > 1) return true;
    skipping_ = std::ranges::find(keys_, text) == keys_.end();
    if (skipping_) {
      skipped_.push_back(text);
      return true;
    }
    const auto [at, fresh] = lists_.try_emplace(text);
    if (!fresh) refuse(file_, "gives {} twice", text);
    last_ = &*at;
    return true;
  }
  bool start_array(std::size_t) override {
    if (skipping_) return deeper();
    require(depth_ == 1 || (depth_ == 2 && (last_values().empty() || !last_rows().empty())));
    if (depth_ == 2) last_rows().push_back(0);
    return deeper();
  }
  bool number_integer(json::number_integer_t value) override {
    return take(static_cast<double>(value));
  }
  bool number_unsigned(json::number_unsigned_t value) override {
    return take(static_cast<double>(value));
  }
  bool number_float(json::number_float_t value, const std::string&) override { return take(value); }
  bool boolean(bool value) override { return take(value ? 1 : 0); }
  bool end_array() override { return shallower(); }
  bool end_object() override { return shallower(); }
  bool null() override { return take_nothing(); }
  bool string(std::string&) override { return take_nothing(); }
  bool binary(json::binary_t&) override { return take_nothing(); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    error_ = legible(reason_of(error));
    return false;
  }

 private:
  std::vector<double>& last_values() { return last_->second.values; }
  std::vector<std::size_t>& last_rows() { return last_->second.rows; }

  void require(bool holds) const {
    if (holds) return;
    if (last_ == nullptr) refuse(file_, "is not an object of lists");
    const auto& [values, rows] = last_->second;
    const std::size_t entry = depth_ == 3 ? rows.size() - 1 : std::max(values.size(), rows.size());
    refuse(file_, "{} is neither a list of numbers nor one of lists of numbers{}", last_->first,
           depth_ < 2 ? "" : fmt::format("; see entry {}", entry));
  }
  bool deeper() {
    ++depth_;
    return true;
  }
  bool shallower() {
    --depth_;
    return true;
  }
  bool take_nothing() const {
    require(skipping_);
    return true;
  }
  bool take(double value) {
    if (skipping_) return true;
    require(depth_ == 3 || (depth_ == 2 && last_rows().empty()));
    last_values().push_back(value);
    if (depth_ == 3) ++last_rows().back();
    return true;
  }

  const fs::path& file_;
  std::span<const char* const> keys_;
  std::map<std::string, Lists> lists_;
  std::map<std::string, Lists>::value_type* last_ = nullptr;
  std::vector<std::string> skipped_;
  std::string error_;
  int depth_ = 0;  ///< 1 in the object, 2 in a list, 3 in a list of a list.
  bool skipping_ = false;
};

/// Each node's list of the nodes that it links to.
Graph make_links(const fs::path& file, const Lists& links, bool keep_direction,
                 ImportCounts& counts) {
  const std::int64_t nodes = std::ssize(links.rows);
  const auto for_each_edge = [&](auto&& use) {
    std::size_t i = 0;
    for (std::int64_t v = 0; v < nodes; ++v) {
      for (std::size_t end = i + links.rows[static_cast<std::size_t>(v)]; i < end; ++i) {
        const double to = links.values[i];
        if (to != std::trunc(to) || to < 0 || to >= static_cast<double>(nodes)) {
          refuse(file, "links: node {} links to {}, which is not a node in [0, {})", v, to, nodes);
        }
        use(static_cast<NodeId>(v), static_cast<NodeId>(to));
      }
    }
  };
  return build_graph(nodes, keep_direction, counts, for_each_edge, file.string());
}

constexpr const char* kFeatures = "features";
constexpr const char* kLinks = "links";
constexpr const char* kTargets[] = {"labels", "train_masks", "val_masks", "test_mask"};

}  // namespace

bool is_wikics(const fs::path& path) { return fs::exists(path / "data.json"); }

Dataset read_wikics(const fs::path& directory, const ImportOptions& options, ImportCounts& counts) {
  const fs::path file = directory / "data.json";
  std::vector<const char*> keys(std::begin(kTargets), std::end(kTargets));
  keys.insert(keys.end(), {kFeatures, kLinks});
  const NumberLists lists(file, keys);
  Dataset dataset;
  dataset.features = dense_features(lists.array(kFeatures));
  std::vector<RowCount> rows{
      {file.string() + ": links", std::ssize(lists.at(kLinks).rows), 0},
      {file.string() + ": features", dataset.features.rows, dataset.features.cols}};
  MadeArrays arrays(file.string());
  for (const char* key : kTargets) {
    if (lists.has(key)) arrays.add(key, [&lists, key] { return lists.array(key); });
  }
  if (lists.has("labels")) rows.push_back(rows_of_labels(lists.array("labels")));
  agree_on_nodes(rows);
  dataset.graph = make_links(file, lists.at(kLinks), options.keep_direction, counts);
  for (const std::string& key : lists.skipped()) arrays.add_unread(key);
  read_targets(arrays, options, dataset);
  compare_with_published(InputFormat::wikics, counts, options);
  return dataset;
}

}  // namespace heliograph
