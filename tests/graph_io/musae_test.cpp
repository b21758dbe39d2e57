#include <sys/stat.h>
#include <unistd.h>

#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"

// The published files of MUSAE, and how a path is taken for one of the known formats.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class MusaeTest : public FolderTest {
 protected:
  MusaeTest() {
    write_text(folder_ / "edges.csv", "id_1,id_2\n0,1\n1,2\n2,2\n");
    write_text(folder_ / "features.json", R"({"2": [3, 0, 3], "0": [1], "1": []})");
    write_text(folder_ / "target.csv", kTarget);
  }
  static constexpr const char* kTarget =
      "id,facebook_id,page_name,page_type\n"
      "1,11,\"A, \"\"quoted\"\" name\",tvshow\n0,10,Plain,company\n2,12,,tvshow\n3,13,No type,\n";

  void refused(const char* part) {
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(folder_); });
  }
};

TEST_F(MusaeTest, ReadsByHand) {
  ImportCounts counts;
  const Dataset dataset = load_dataset(folder_, {}, &counts);
  EXPECT_THAT(list(dataset.graph.neighbours), ElementsAre(1, 0, 2, 1));
  EXPECT_THAT(dataset.class_names, ElementsAre("company", "tvshow"));
  EXPECT_THAT(list(dataset.labels.class_of), ElementsAre(0, 1, 1, -1));
  EXPECT_EQ(dataset.features.cols, 4);
  EXPECT_THAT(list(dataset.features.offsets), ElementsAre(0, 1, 1, 3, 3));
  EXPECT_THAT(list(dataset.features.columns), ElementsAre(1, 0, 3));
  EXPECT_THAT(list(dataset.features.values), ElementsAre(1, 1, 1));
  EXPECT_EQ(counts.self_loops, 1);
  EXPECT_EQ(counts.isolated, 1);
  EXPECT_EQ(counts.unlabelled, 1);
}

TEST_F(MusaeTest, ErrorsNameFileAndPlace) {
  // --index-base does not apply here, so no error may suggest it.
  write_text(folder_ / "edges.csv", "id_1,id_2\n1,4\n");
  try {
    load_dataset(folder_);
    ADD_FAILURE() << "node 4 of 4 was read";
  } catch (const Error& error) {
    using namespace ::testing;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("node 4 is not in [0, 3]"), Not(HasSubstr("index"))));
  }
  for (const char* text : {"id_1,id_2\n1,0,1\n", "1,0,1\n", "id_1,id_2,weight\n0,1,2\n"}) {
    write_text(folder_ / "edges.csv", text);
    refused("3 fields between commas; a line here has the 2 nodes of an edge");
  }
  write_text(folder_ / "edges.csv", "id_1,id_2\n1,4\n4,1\n");
  refused("is not in [0, 3], the nodes of target.csv; all would fit if 1 were subtracted: nodes");
  write_text(folder_ / "edges.csv", "id_1,id_2\n0,4\n");
  refused("edges.csv, line 2: node 4 is not in [0, 3], the nodes of target.csv");
  fs::remove(folder_ / "edges.csv");
  write_text(folder_ / "ind.cora.graph", "a pickle");
  test::expect_error(ErrorCode::bad_input, {"holds no known format", "convert.py"},
                     [&] { load_dataset(folder_); });
  write_text(folder_ / "edges.csv", "0,1\n");
  for (const auto& [text, part] :
       {std::pair{R"({"0": [1)", "features.json: is damaged JSON"},
        std::pair{"[]", "not an object"},
        std::pair{R"({"4": [1]})", "'4' is not a node in [0, 4), the nodes of target.csv"},
        std::pair{R"({"x": [1]})", "'x' is not a node"},
        std::pair{R"({"1": [], "0": [1], "1": [2]})", "features.json: gives node 1 twice"},
        std::pair{R"({"0": [1], "00": [2]})", "gives node 0 twice"},
        std::pair{R"({"0": [-1]})", "node 0 has the word -1"},
        std::pair{R"({"0": [1.5]})", "node 0 has the word 1.5"},
        std::pair{R"({"0": 3})", "node 0 has no list of words"},
        std::pair{R"({"0": []})", "0 feature columns"}}) {
    write_text(folder_ / "features.json", text);
    SCOPED_TRACE(text);
    refused(part);
  }
  write_text(folder_ / "features.json", "{\"0\": " + std::string(1 << 20, '['));
  refused("features.json: nests lists too deeply");
  write_text(folder_ / "features.json", R"({"0": [1]})");
  for (const auto& [text, part] :
       {std::pair{"", "target.csv: is empty"},
        std::pair{"id,kind\n0,a\n", "none of the columns id and kind is a usual target"},
        std::pair{"page_type\na\n", "there is no column id"},
        std::pair{"id,page_type\n0,a\n0,b\n", "found 0 instead of 1"},
        std::pair{"id,page_type\n0,a\n2,b\n", "found 2 instead of 1"},
        std::pair{"id,page_type\n0\n", "line 2: 1 fields instead of 2"},
        std::pair{"id,page_type\nx,a\n", "the id 'x' is not an integer"},
        std::pair{"id,page_type\n0,\"a\n", "line 2: a quote is not closed"},
        std::pair{"id,page_type\n0,a\n1,caf\xe9\n",
                  "target.csv, line 3: the page_type is not UTF-8; iconv"},
        std::pair{"id,page_type\n0,\n", "no node has a page_type"}}) {
    write_text(folder_ / "target.csv", text);
    SCOPED_TRACE(text);
    refused(part);
  }
  fs::remove(folder_ / "target.csv");
  refused("target.csv");
}

TEST_F(MusaeTest, MissingTargetsAreUnlabelled) {
  const auto classes = [&](const std::string& values, const auto& names, const auto& class_of) {
    std::string text = "id,target\n";
    std::int64_t id = 0;
    for (std::size_t at = 0, end = 0; at < values.size(); at = end + 1) {
      end = std::min(values.find(' ', at), values.size());
      text += std::to_string(id++) + "," + values.substr(at, end - at) + "\n";
    }
    write_text(folder_ / "target.csv", text);
    SCOPED_TRACE(values);
    const Dataset dataset = load_dataset(folder_);
    EXPECT_THAT(dataset.class_names, names);
    EXPECT_THAT(list(dataset.labels.class_of), class_of);
  };
  classes("10 nan 2 NaN NA None null", ElementsAre("2", "10"),
          ElementsAre(1, -1, 0, -1, -1, -1, -1));
  classes("10.0 nan 2.0 -1.0", ElementsAre("2.0", "10.0"), ElementsAre(1, -1, 0, -1));
  classes("10 -1 2 3", ElementsAre("2", "3", "10"), ElementsAre(2, -1, 0, 1));
  classes("b -1 a NaN", ElementsAre("-1", "a", "b"), ElementsAre(2, 0, 1, -1));
  write_text(folder_ / "target.csv", "id,target\n0,NA\n1,-1\n2,nan\n");
  ImportOptions options;
  options.regression = true;
  using ::testing::IsNan;
  EXPECT_THAT(list(load_dataset(folder_, options).labels.values),
              ElementsAre(IsNan(), -1, IsNan()));
  refused("no node has a target");
  options = {};
  options.requires_labels = false;
  write_text(folder_ / "target.csv", "id,target\n0,NA\n1,\n2,nan\n");
  EXPECT_THAT(list(load_dataset(folder_, options).labels.class_of), ElementsAre(-1, -1, -1));
}

TEST_F(MusaeTest, OtherGraphsHaveOtherNamesAndTargets) {
  const fs::path twitch = folder_ / "DE";
  fs::create_directory(twitch);
  write_text(twitch / "musae_DE_edges.csv", "from,to\n0,1\n2,1\n");
  write_text(twitch / "musae_DE.json", R"({"0": [1], "1": [0], "2": [2]})");
  write_text(twitch / "musae_DE_target.csv",
             "id,days,mature,views,partner,new_id\n"
             "9,5,True,10,False,1\n7,8,False,2,False,2\n8,6,True,,False,0\n");
  Dataset dataset = load_dataset(twitch);
  EXPECT_THAT(dataset.class_names, ElementsAre("False", "True"));
  EXPECT_THAT(list(dataset.labels.class_of), ElementsAre(1, 1, 0));
  EXPECT_THAT(list(dataset.graph.neighbours), ElementsAre(1, 0, 2, 1));
  EXPECT_THAT(list(dataset.features.columns), ElementsAre(1, 0, 2));

  ImportOptions options;
  options.target = "views";
  dataset = load_dataset(twitch, options);  // Numbers are classes in the order of numbers.
  EXPECT_THAT(dataset.class_names, ElementsAre("2", "10"));
  EXPECT_THAT(list(dataset.labels.class_of), ElementsAre(-1, 1, 0));
  options.regression = true;
  dataset = load_dataset(twitch, options);
  EXPECT_EQ(dataset.labels.task, Task::regression);
  EXPECT_THAT(list(dataset.labels.values), ElementsAre(::testing::IsNan(), 10, 2));
  options.target = "mature";
  test::expect_error(ErrorCode::bad_input, "mature of node 0 is 'True', which is not a number",
                     [&] { load_dataset(twitch, options); });
  options.target = "age";
  test::expect_error(
      ErrorCode::usage,
      {"target age: ", "has the columns id, days, mature, views, partner and new_id"},
      [&] { load_dataset(twitch, options); });

  write_text(twitch / "musae_FR_edges.csv", "0,1\n");
  write_text(twitch / "musae_FR_target.csv", "id,target\n0,1\n");
  test::expect_error(ErrorCode::bad_input, "holds 2 graphs", [&] { load_dataset(twitch); });
}

TEST_F(MusaeTest, FormatCanBeForcedAndUnknownPathsAreExplained) {
  ImportOptions options;
  options.format = InputFormat::native;
  test::expect_error(ErrorCode::bad_input, "manifest.json",
                     [&] { load_dataset(folder_, options); });
  test::expect_error(ErrorCode::bad_input, "does not exist",
                     [&] { load_dataset(folder_ / "absent"); });
  fs::create_directory(folder_ / "void");
  write_text(folder_ / "void" / "graph.bin", "x");
  test::expect_error(ErrorCode::bad_input, "has an unknown format",
                     [&] { load_dataset(folder_ / "void" / "graph.bin"); });
  test::expect_error(ErrorCode::bad_input, "give the directory",
                     [&] { load_dataset(folder_ / "target.csv"); });
  write_text(folder_ / "features", "x");  // Only the beginning of a name in the form.
  test::expect_error(ErrorCode::bad_input, "has an unknown format",
                     [&] { load_dataset(folder_ / "features"); });
  test::expect_error(ErrorCode::bad_input, "the known ones are a native directory",
                     [&] { load_dataset(folder_ / "void"); });
  write_text(folder_ / "fake.npz", "no archive");
  test::expect_error(ErrorCode::bad_input, "cannot be read as a .npz archive",
                     [&] { load_dataset(folder_ / "fake.npz"); });
}

TEST_F(MusaeTest, WhatCannotBeReadIsBadInputAndNeverWaitedFor) {
  test::expect_error(ErrorCode::bad_input, "cannot read",
                     [&] { load_dataset(folder_ / std::string(300, 'x')); });
  ImportOptions options;
  options.index_base = 0;
  for (const char* name : {"target.csv", "pipe.npz"}) {
    SCOPED_TRACE(name);
    fs::remove(folder_ / name);
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
    ::alarm(20);  // Ends the test program if it waits for a writer.
    const fs::path path = std::string_view(name) == "pipe.npz" ? folder_ / name : folder_;
    test::expect_error(ErrorCode::bad_input, "is not a regular file",
                       [&] { load_dataset(path, options); });
    ::alarm(0);
  }
}

}  // namespace
}  // namespace heliograph
