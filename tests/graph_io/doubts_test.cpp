#include "graph/doubts.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heliograph {
namespace {

std::string doubts(Labels labels) {
  Dataset dataset;
  dataset.name = "mine";
  dataset.labels = std::move(labels);
  dataset.graph.offsets = std::vector<std::int64_t>{0, 1, 2};
  std::string lines;
  warn_of_doubts(dataset, true, [&](LogLevel level, std::string_view text) {
    EXPECT_EQ(level, LogLevel::warning);
    lines.append(text).append("\n");
  });
  return lines;
}

std::string doubts_of_classes(std::vector<std::int32_t> class_of, std::int32_t classes) {
  Labels labels;
  labels.classes = classes;
  labels.class_of = std::move(class_of);
  return doubts(std::move(labels));
}

/// 300 nodes, whose classes are 0 to 6 plus `first`; every fifth has none.
std::vector<std::int32_t> seven_classes(std::int32_t first) {
  std::vector<std::int32_t> class_of;
  for (int v = 0; v < 300; ++v) class_of.push_back(v % 5 == 4 ? -1 : first + v % 7);
  return class_of;
}

void expect_doubt(const std::string& lines, const std::string& words) {
  EXPECT_NE(lines.find(words), std::string::npos) << lines;
}

TEST(Doubts, OrdinaryLabelsRaiseNone) {
  EXPECT_EQ(doubts_of_classes(seven_classes(0), 7), "");
  EXPECT_EQ(doubts_of_classes(seven_classes(0), 9), "");  // Two classes with names only.
  Labels labels;
  labels.task = Task::multilabel;
  labels.classes = 3;
  labels.indicators = std::vector<std::uint8_t>{1, 0, 0, 0, 1, 1, 0, 0, 0};
  labels.labelled = std::vector<std::uint8_t>{1, 1, 1};
  EXPECT_EQ(doubts(labels), "");
}

TEST(Doubts, ClassesFromOne) {
  expect_doubt(doubts_of_classes(seven_classes(1), 8), "no node has class 0");
}

TEST(Doubts, ASingleClass) {
  expect_doubt(doubts_of_classes({0, -1, 0}, 1), "every labelled node has class 0");
  expect_doubt(doubts_of_classes({2, -1, 2}, 3), "every labelled node has class 2");
}

TEST(Doubts, AStrayIdIsNamed) {
  std::vector<std::int32_t> class_of = seven_classes(0);
  class_of[17] = 999;
  const std::string lines = doubts_of_classes(class_of, 1000);
  expect_doubt(lines, "1000 classes for 240 labelled nodes, and 992 classes have no node");
  expect_doubt(lines, "the largest id, 999, is that of node 17");
}

TEST(Doubts, AClassForEachNode) {
  std::vector<std::int32_t> class_of;
  for (int v = 0; v < 50; ++v) class_of.push_back(v);
  expect_doubt(doubts_of_classes(class_of, 50),
               "each of the 50 labelled nodes has a class of its own");
}

TEST(Doubts, NoEdges) {
  Dataset dataset;
  dataset.name = "lone";
  dataset.labels.classes = 1;
  dataset.labels.class_of = std::vector<std::int32_t>{0, 0};
  std::string lines;
  const auto log = [&](LogLevel, std::string_view text) { lines += text; };
  warn_of_doubts(dataset, true, log);
  expect_doubt(lines, "'lone': the graph has no edges");
}

TEST(Doubts, OneHotRows) {
  Labels labels;
  labels.task = Task::multilabel;
  labels.classes = 3;
  labels.indicators = std::vector<std::uint8_t>{1, 0, 0, 0, 0, 1, 0, 0, 0};
  labels.labelled = std::vector<std::uint8_t>{1, 1, 0};
  expect_doubt(doubts(labels), "exactly one of 3 labels");
}

}  // namespace
}  // namespace heliograph
