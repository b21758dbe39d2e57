#include <fmt/format.h>

#include <string>

#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"

namespace heliograph {
namespace {

using test::write_text;

class WikiCs : public test::FolderTest {
 protected:
  /// Writes data.json with one member replaced or left out.
  void write(const std::string& name = "", const std::string& text = "") {
    const std::pair<const char*, const char*> members[] = {
        {"features", "[[1,0,2],[0,0,0],[0,3,0],[4,0,0.5],[0,-1,0],[7,8,9]]"},
        {"labels", "[0, 1, 2, 1, 0, -1]"},
        {"links", "[[1, 1], [0], [2], [1], [0], []]"},
        {"train_masks",
         "[[true,true,false,false,false,false],[false,false,true,true,false,false]]"},
        {"val_masks", "[[0,0,1,0,0,0],[1,0,0,0,0,0]]"},
        {"stopping_masks", "[[0,0,0,0,0,0],[{\"a\":[[[\"x\"]]]},null]]"},
        {"test_mask", "[0,0,0,0,1,0]"}};
    std::string file = "{";
    for (const auto& [key, value] : members) {
      const std::string& given = key == name ? text : value;
      if (!given.empty()) file += fmt::format("{}\"{}\": {}", file == "{" ? "" : ", ", key, given);
    }
    write_text(folder_ / "data.json", file + "}");
  }

  void refused(const std::string& name, const std::string& text, const char* part) {
    SCOPED_TRACE(name + ": " + text);
    write(name, text);
    test::expect_error(ErrorCode::bad_input, {"data.json", part}, [&] { load_dataset(folder_); });
  }
};

TEST_F(WikiCs, IsReadWithAllSplits) {
  write();
  EXPECT_EQ(detect_format(folder_), InputFormat::wikics);
  std::string text;
  ImportOptions options;
  options.log = [&](LogLevel, std::string_view line) { text += std::string(line) + '\n'; };
  ImportCounts counts;
  const Dataset dataset = load_dataset(folder_, options, &counts);
  expect_graph(dataset.graph);
  EXPECT_EQ(counts.edges_listed, 6);
  EXPECT_EQ(counts.self_loops, 1);
  expect_features(dataset.features, false);
  expect_labels(dataset.labels);
  using enum Role;
  using ::testing::ElementsAre;
  ASSERT_EQ(dataset.splits.size(), 2U);
  EXPECT_THAT(list(dataset.splits[0].role),
              ElementsAre(train, train, validation, none, Role::test, none));
  EXPECT_THAT(list(dataset.splits[1].role),
              ElementsAre(validation, none, train, train, Role::test, none));
  EXPECT_THAT(text, ::testing::HasSubstr("left unread: stopping_masks"));

  options.keep_direction = true;
  EXPECT_THAT(list(load_dataset(folder_, options).graph.neighbours), ElementsAre(1, 4, 0, 3));
  options.requires_labels = false;
  write("labels");
  EXPECT_FALSE(load_dataset(folder_, options).labels.has_label(0));
}

TEST_F(WikiCs, ADirectoryOfAnotherFormMayHaveDataJson) {
  write();
  write_text(folder_ / "edges.csv", "0,1\n");
  write_text(folder_ / "features.npy", "");
  EXPECT_EQ(detect_format(folder_), InputFormat::edge_list);
}

TEST_F(WikiCs, IsRefusedByName) {
  for (const char* key : {"features", "links"}) refused(key, "", "has no list");
  refused("labels", "", "has no labels");
  refused("test_mask", "", "nothing says which nodes are test nodes");
  refused("labels", "[0, 1], \"labels\": []", "gives labels twice");
  refused("labels", "[0, 1, 2]", "has 3 rows");
  refused("labels", "[0, 1, 2, 0.5, 0, 1]", "labels");
  refused("links", "[[6], [], [], [], [], []]", "node 0 links to 6, which is not a node in [0, 6)");
  refused("links", "[[-1], [], [], [], [], []]", "node 0 links to -1");
  refused("links", "[[], [], [], [], [], [0.5]]", "node 5 links to 0.5");
  refused("links", "[[], []]", "links: has 2 rows");
  refused("links", "[1, 2]", "links: has 0 rows");
  refused("features", "[[1], [2], [3, 4], [5], [6], [7]]",
          "features: list 2 has 2 numbers, where the first has 1");
  refused("features", "[1, 2, 3, 4, 5, 6]", "features are nodes x columns");
  refused("features", "[]", "features are nodes x columns");
  refused("features", "[[], [], [], [], [], []]", "features: has no columns");
  refused("test_mask", "[0, 0, 0, 0, 2, 0]", "test_mask");
  for (const char* value : {"3", "null", "\"x\"", "{}", "[[[1]]]", "[1, [2]]", "[[1], 2]",
                            "[\"x\"]", "[null]", "[[1], null]", "[{}]", "true"}) {
    refused("labels", value, "labels is neither a list of numbers nor one of lists of numbers");
  }
  for (const char* value : {"[0, 1, null]", "[[1], [2], [1, null]]", "[[1], [2], null]"}) {
    refused("labels", value, "lists of numbers; see entry 2");
  }
  for (const char* text : {"[1]", "3", "null", "[[]]", "\"x\""}) {
    write_text(folder_ / "data.json", text);
    test::expect_error(ErrorCode::bad_input, "data.json: is not an object of lists",
                       [&] { load_dataset(folder_); });
  }
  for (const char* text : {"", "{\"links\": [[1", "{\"labels\": [NaN]}"}) {
    write_text(folder_ / "data.json", text);
    test::expect_error(ErrorCode::bad_input, "data.json: is damaged JSON",
                       [&] { load_dataset(folder_); });
  }
}

}  // namespace
}  // namespace heliograph
