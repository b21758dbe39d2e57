#pragma once

#include <gmock/gmock.h>

#include "graph_io/fixtures.hpp"
#include "graph_io/small_graphs.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

// The graph that fixtures.py writes in every form.

inline void expect_graph(const Graph& graph) {
  using ::testing::ElementsAre;
  EXPECT_EQ(graph.nodes, 6);
  EXPECT_FALSE(graph.directed);
  EXPECT_THAT(list(graph.offsets), ElementsAre(0, 2, 4, 4, 5, 6, 6));
  EXPECT_THAT(list(graph.neighbours), ElementsAre(1, 4, 0, 3, 1, 0));
}

inline void expect_features(const Features& features, bool sparse) {
  using ::testing::ElementsAre;
  EXPECT_EQ(features.rows, 6);
  EXPECT_EQ(features.cols, 3);
  ASSERT_EQ(features.sparse, sparse);
  if (sparse) {
    EXPECT_THAT(list(features.offsets), ElementsAre(0, 2, 2, 3, 5, 6, 9));
    EXPECT_THAT(list(features.columns), ElementsAre(0, 2, 1, 0, 2, 1, 0, 1, 2));
    EXPECT_THAT(list(features.values), ElementsAre(1, 2, 3, 4, 0.5F, -1, 7, 8, 9));
  } else {
    EXPECT_THAT(list(features.dense),
                ElementsAre(1, 0, 2, 0, 0, 0, 0, 3, 0, 4, 0, 0.5F, 0, -1, 0, 7, 8, 9));
  }
}

inline void expect_labels(const Labels& labels) {
  EXPECT_EQ(labels.task, Task::multiclass);
  EXPECT_EQ(labels.classes, 3);
  EXPECT_THAT(list(labels.class_of), ::testing::ElementsAre(0, 1, 2, 1, 0, -1));
}

/// Node 5 is in the first test mask, but has no label.
inline void expect_first_split(const Split& split) {
  using enum Role;
  EXPECT_THAT(list(split.role), ::testing::ElementsAre(train, train, validation, test, test, none));
}

inline void expect_second_split(const Split& split) {
  using enum Role;
  EXPECT_THAT(list(split.role), ::testing::ElementsAre(validation, test, train, train, test, none));
}

}  // namespace heliograph
