#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph/io/normal_quantiles.hpp"
#include "graph_io/small_graphs.hpp"
#include "heliograph/io.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"

// A graph in GraphLand's form. Prepared features are those of PyTorch Geometric's GraphLandDataset.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::write_text;
using ::testing::ElementsAre;
using ::testing::FloatNear;

const char* const kInfo =
    "# properties\ndataset_name: tiny\ntask: multiclass_classification\n"
    "numerical_features_names:\n- age\n- 'the price'\n- share\n"
    "fraction_features_names: [share]\n"
    "categorical_features_names:\n  - kind  # three values\n  - \"on\"\n"
    "target_name: group\nnotes:\n  nested: {a: [1,\n    2]}\n";

class GraphLand : public test::FolderTest {
 protected:
  void SetUp() override {
    write_text(folder_ / "info.yaml", kInfo);
    write_text(folder_ / "features.csv",
               "node_id,kind,age,share,\"the price\",on,other\n"
               "0,5,1,0.25,0,True,hello\n1,-3,,0.5,100,False,\n2,0,2,,100,False,\"a, \"\"b\"\"\"\n"
               "3,5,1,0.5,200,True,9\n4,0,7,1,100.5,True,x\n");
    write_text(folder_ / "targets.csv",
               "node_id,group,name\n0,0.0,a\n1,2.0,b\n2,,c\n3,1.0,d\n4,0.0,e\n");
    write_text(folder_ / "edgelist.csv", "source,target,weight\n0,1,5\n1,0,7\n4,2,1\n3,3,1\n");
    write_text(folder_ / "split_masks_RL.csv",
               "node_id,train,val,test\n0,True,False,False\n1,False,True,False\n"
               "2,True,False,False\n3,False,False,True\n4,False,False,True\n");
    write_text(
        folder_ / "split_masks_TH.csv",
        "node_id,day,train,val,test\n0,Mo,0,1,0\n1,Tu,1,0,0\n2,We,0,0,0\n3,Th,0,0,1\n4,Fr,0,0,0\n");
  }

  /// Expects that a file with this text is refused, by its name unless `part` names another.
  void refused(const std::string& file, const std::string& text, const std::string& part) {
    const std::string before = test::read_text(folder_ / file);
    write_text(folder_ / file, text);
    SCOPED_TRACE(text);
    const bool other = part.find(".csv") != std::string::npos;
    test::expect_error(ErrorCode::bad_input, {other ? part : file, part},
                       [&] { load_dataset(folder_); });
    write_text(folder_ / file, before);
  }

  /// The same for a text of info.yaml in which `from` is replaced.
  void info_refused(const std::string& from, const std::string& to, const std::string& part) {
    std::string text = kInfo;
    refused("info.yaml", text.replace(text.find(from), from.size(), to), part);
  }
};

TEST_F(GraphLand, IsReadAsItsLoaderDoes) {
  EXPECT_EQ(detect_format(folder_), InputFormat::graphland);
  ImportCounts counts;
  const Dataset dataset = load_dataset(folder_, {}, &counts);
  EXPECT_THAT(list(dataset.graph.offsets), ElementsAre(0, 1, 2, 3, 3, 4));
  EXPECT_THAT(list(dataset.graph.neighbours), ElementsAre(1, 0, 4, 2));
  EXPECT_TRUE(dataset.graph.edge_weights.empty());
  EXPECT_EQ(counts.self_loops, 1);
  // age, price; share; kind is -3, 0 or 5; on.
  EXPECT_EQ(dataset.features.cols, 7);
  const float least = -5.1993375F;
  const float values[] = {least,      least,       0.25F, 0, 0, 1, 1,  //
                          least,      -0.3186394F, 0.5F,  1, 0, 0, 0,  //
                          0.1800124F, -0.3186394F, 0.5F,  0, 1, 0, 0,  //
                          least,      -least,      0.5F,  0, 0, 1, 1,  //
                          -least,     0.6744897F,  1,     0, 1, 0, 1};
  const auto have = list(dataset.features.dense);
  ASSERT_EQ(have.size(), std::size(values));
  for (std::size_t i = 0; i < have.size(); ++i) {
    EXPECT_THAT(have[i], FloatNear(values[i], 1e-6F)) << "row " << i / 7 << ", column " << i % 7;
  }
  EXPECT_EQ(dataset.labels.task, Task::multiclass);
  EXPECT_THAT(list(dataset.labels.class_of), ElementsAre(0, 2, -1, 1, 0));
  using enum Role;
  ASSERT_EQ(dataset.splits.size(), 2U);  // Node 2 has no label.
  EXPECT_THAT(list(dataset.splits[0].role), ElementsAre(train, validation, none, test, test));
  EXPECT_THAT(list(dataset.splits[1].role), ElementsAre(validation, train, none, test, none));
}

TEST_F(GraphLand, TheTaskDecidesWhatLabelsAre) {
  std::string text = kInfo;
  write_text(folder_ / "info.yaml",
             text.replace(text.find("multiclass_classification"), 25, "regression"));
  const Labels labels = load_dataset(folder_).labels;
  EXPECT_EQ(labels.task, Task::regression);
  EXPECT_EQ(labels.values[1], 2);
  EXPECT_FALSE(labels.has_label(2));
  write_text(folder_ / "info.yaml", kInfo);
  ImportOptions options;
  options.regression = true;
  test::expect_error(ErrorCode::usage, "are classes", [&] { load_dataset(folder_, options); });
}

// From a NumPy program of the transformer's steps: linspace, percentile, interp both ways and, from
// SciPy, norm.ppf. Each number occurs 50 times or 49, and many of the 1000 quantiles are exactly
// at the first of equal numbers.
TEST(NormalQuantiles, OfEqualNumbersRoundAsNumPyDoes) {
  std::vector<float> column(1999);
  for (std::size_t v = 0; v < column.size(); ++v) column[v] = static_cast<float>(v * 7 % 40);
  to_normal_quantiles(column, sorted_numbers(column));
  const std::pair<std::size_t, float> values[] = {
      {0, -5.1993376F}, {23, -1.7861556F}, {19, -0.4197410F}, {20, 0.0313693F},
      {22, 1.0909947F}, {34, 1.7800057F},  {17, 2.2567451F}};
  for (const auto& [v, value] : values) {
    EXPECT_THAT(column[v], FloatNear(value, 1e-6F)) << v;
  }
}

TEST_F(GraphLand, FractionsOfTwoGraphsAreTransformedToo) {
  std::string text = kInfo;
  write_text(folder_ / "info.yaml", text.replace(text.find("tiny"), 4, "avazu-ctr"));
  EXPECT_THAT(list(load_dataset(folder_).features.dense)[2], FloatNear(-5.1993375F, 1e-6F));
}

TEST_F(GraphLand, InfoIsRefusedByName) {
  const char* const kind = "of YAML, only 'key: value', lists and quotes";
  info_refused("task: multiclass_classification\n", "", "has no key task");
  info_refused("multiclass_classification", "ranking", "the task is ranking");
  info_refused("target_name: group", "target_name: price",
               "targets.csv, line 1: there is no column");
  info_refused("task:", "task: regression\ntask:", "line 4: gives task twice");
  info_refused("# properties", "  - loose", "line 1: '- loose' belongs to no key");
  info_refused("# properties", "{a: 1}", "line 1: '{a: 1}' is not of the form 'key: value'");
  info_refused("# properties", "title", "line 1: 'title' is not of the form 'key: value'");
  info_refused("- age\n", "- price\n", "features.csv, line 1: there is no column price");
  info_refused("- age\n", "- kind\n", "features.csv, line 1: the column kind is needed twice");
  for (const char* value : {"&a x", "*a", "!!str x", "|\n  x", ">\n  x", "{x: y}", "", "null", "~",
                            "\"\\x41\"", "'open", "'a' b", "x: y", "[a]", "x\n  y", "- x", "@x"}) {
    info_refused(" group", std::string(" ") + value, kind);
  }
  for (const char* value : {"share", "[share", "[share]]", "[[share]]", "[share] x", "[a: b]",
                            "[share,, age]", "[{share}]", "{share}", "", "\n- a: b", "\n- - a",
                            "\n- &a b", "\n  share", "[]\n- share"}) {
    info_refused("[share]", value, kind);
  }
}

TEST_F(GraphLand, ListsMayBeWrittenInBracketsOverLines) {
  std::string text = kInfo;
  const std::string from = "\n- age\n- 'the price'\n- share\n";
  write_text(folder_ / "info.yaml", text.replace(text.find(from), from.size(),
                                                 " [age, 'the price',\n  \"share\"]  # three\n"));
  EXPECT_EQ(load_dataset(folder_).features.cols, 7);
  text.replace(text.find("[share]"), 7, "[]");
  write_text(folder_ / "info.yaml", text);
  EXPECT_THAT(list(load_dataset(folder_).features.dense)[2], FloatNear(-5.1993375F, 1e-6F));
}

TEST_F(GraphLand, TablesAreRefusedByName) {
  const std::string header = "node_id,kind,age,share,the price,on\n";
  const std::string end = "1,0,1,1,1,1\n2,0,1,1,1,1\n3,0,1,1,1,1\n4,0,1,1,1,1\n";
  refused("features.csv", "", "there is no header");
  refused("features.csv", header, "has 0 rows");
  refused("features.csv", header + "0,0,1,1,1,1\n", "has 1 rows");
  refused("features.csv", header + "1,0,1,1,1,1\n",
          "line 2: the first column is 1, not 0: it numbers the nodes");
  refused("features.csv", header + "0,0,1,1,1\n", "line 2: 5 fields, where the first line has 6");
  refused("features.csv", header + "0,0,x,1,1,1\n" + end, "line 2: 'x' is not a number");
  refused("features.csv", header + "0,0,\"x,1,1,1\n" + end, "line 2: a quote is not closed");
  refused("features.csv", header + "0,0,inf,1,1,1\n" + end, "line 2: age is inf");
  refused("features.csv", header + "0,0,1e39,1,1,1\n" + end, "line 2: age is 1e+39");
  for (const char* category : {"0.5", "", "2147483648", "nan", "1e300"}) {
    refused("features.csv", header + "0," + category + ",1,1,1,1\n" + end,
            "a category is a whole number of 32 bits");
  }
  refused("features.csv", header + "0,0,,1,1,1\n1,0,,1,1,1\n2,0,,1,1,1\n3,0,,1,1,1\n4,0,,1,1,1\n",
          "the column age is empty");
  refused("targets.csv", "node_id,group\n0,0.5\n1,0\n2,0\n3,0\n4,0\n", "0.5");
  refused("edgelist.csv", "source,target\n0,5\n", "line 2: node 5 is not in [0, 4]");
  refused("split_masks_RL.csv", "node_id,train,val\n0,1,0\n1,0,1\n2,0,0\n3,0,0\n4,0,0\n",
          "there is no column test");
  refused("split_masks_TH.csv", "node_id,train,val,test\n0,1,x,0\n", "line 2: 'x' is not a number");
  refused("split_masks_TH.csv", "node_id,train,val,test\n0,1,0,0\n", "has 1 rows for 5 nodes");
  for (const char* file : {"features.csv", "targets.csv"}) {
    const std::string text = test::read_text(folder_ / file);
    fs::remove(folder_ / file);
    test::expect_error(ErrorCode::bad_input, file, [&] { load_dataset(folder_); });
    write_text(folder_ / file, text);
  }
  test::expect_error(ErrorCode::bad_input, "give the directory",
                     [&] { load_dataset(folder_ / "features.csv"); });
}

TEST_F(GraphLand, CategoriesThatWouldFillMemoryAreRefused) {
  std::string features = "node_id,kind,age,share,the price,on\n", targets = "node_id,group\n";
  for (int v = 0; v < 16400; ++v) {
    features += fmt::format("{0},{0},1,1,1,1\n", v);
    targets += fmt::format("{},0\n", v);
  }
  write_text(folder_ / "targets.csv", targets);
  refused("features.csv", features, "2 categorical features have 16401 categories for 16400 nodes");
}

}  // namespace
}  // namespace heliograph
