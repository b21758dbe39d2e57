#include "graph/doubts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/rows.hpp"

namespace heliograph {
namespace {

/// With so many classes, each should have more than one node.
constexpr std::int32_t kManyClasses = 10;

void warn_of_classes(const Dataset& dataset, const LogCallback& log) {
  const Labels& labels = dataset.labels;
  std::vector<std::int64_t> members(at(labels.classes), 0);
  std::int64_t labelled = 0;
  std::size_t of_largest = 0;
  for (std::size_t v = 0; v < labels.class_of.size(); ++v) {
    const std::int32_t c = labels.class_of[v];
    if (c < 0) continue;
    ++labelled;
    ++members[at(c)];
    if (labels.class_of[of_largest] < c) of_largest = v;
  }
  if (labelled == 0) return;
  const std::int64_t empty = std::ranges::count(members, 0);
  if (empty + 1 == labels.classes) {
    log(LogLevel::warning,
        fmt::format("'{}': every labelled node has class {}, so there is nothing to learn: check "
                    "the labels",
                    dataset.name, labels.class_of[of_largest]));
    return;
  }
  if (members[0] == 0) {
    log(LogLevel::warning,
        fmt::format("'{}': no node has class 0, but the model gets an output for it: if classes "
                    "are numbered from 1, subtract 1 from the labels",
                    dataset.name));
  }
  if (labels.classes > 2 && labels.classes == labelled && empty == 0) {
    log(LogLevel::warning,
        fmt::format("'{}': each of the {} labelled nodes has a class of its own: check that the "
                    "labels are what is to be predicted",
                    dataset.name, labelled));
  } else if (2 * empty > labels.classes ||
             (labels.classes >= kManyClasses && labelled < 2 * std::int64_t{labels.classes})) {
    log(LogLevel::warning,
        fmt::format("'{}': {} classes for {} labelled nodes, and {} classes have no node; the "
                    "largest id, {}, is that of node {}: if an id is wrong, correct it or set "
                    "it to -1 (unlabelled)",
                    dataset.name, labels.classes, labelled, empty, labels.class_of[of_largest],
                    of_largest));
  }
}

void warn_of_one_hot_rows(const Dataset& dataset, const LogCallback& log) {
  const Labels& labels = dataset.labels;
  const auto classes = at(labels.classes);
  for (std::size_t v = 0; v < labels.labelled.size(); ++v) {
    const std::uint8_t* row = labels.indicators.data() + v * classes;
    if (labels.labelled[v] != 0 && std::count(row, row + classes, 1) != 1) return;
  }
  log(LogLevel::warning,
      fmt::format("'{}': every labelled node has exactly one of {} labels, which is trained as "
                  "multi-label: if these are one-hot rows of classes, give class ids, an array of "
                  "shape (nodes,)",
                  dataset.name, labels.classes));
}

}  // namespace

void warn_of_doubts(const Dataset& dataset, bool learns, const LogCallback& log) {
  if (!log) return;
  if (dataset.graph.entries() == 0) {
    log(LogLevel::warning,
        fmt::format("'{}': the graph has no edges, so nodes learn only from their own features",
                    dataset.name));
  }
  if (!learns) return;
  if (dataset.labels.task == Task::multiclass) {
    warn_of_classes(dataset, log);
  } else if (dataset.labels.task == Task::multilabel) {
    warn_of_one_hot_rows(dataset, log);
  }
}

}  // namespace heliograph
