#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "graph_io/fixtures.hpp"
#include "graph_io/small_graphs.hpp"
#include "heliograph/io.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

class SaveNpz : public PythonTest {
 protected:
  /// Writes the data set, and reads it again.
  Dataset again(const Dataset& dataset, ImportOptions options = {}) const {
    const auto file = folder_ / (dataset.name + ".npz");
    save_npz(dataset, file);
    options.keep_direction = dataset.graph.directed;
    options.regression = dataset.labels.task == Task::regression;
    return load_dataset(file, options);
  }
};

TEST_F(SaveNpz, IsReadAsTheSameDataSet) {
  Dataset dense = small_dense();
  dense.class_names = {"tree", "gr\u00fcn, \u4e2d\U0001f600"};
  const Dataset read = again(dense);
  EXPECT_EQ(dataset_hash(read), dataset_hash(dense));
  EXPECT_EQ(read.class_names, dense.class_names);

  Dataset weighted = small_dense();
  weighted.graph.edge_weights = std::vector<float>(8, 0.25F);
  EXPECT_EQ(dataset_hash(again(weighted)), dataset_hash(weighted));
  EXPECT_NE(dataset_hash(weighted), dataset_hash(dense));

  // As many splits as nodes.
  Dataset square = small_dense();
  square.splits.push_back(square.splits[1]);
  square.splits.push_back(square.splits[0]);
  square.splits.push_back(square.splits[0]);
  ASSERT_EQ(std::ssize(square.splits), square.graph.nodes);
  EXPECT_EQ(dataset_hash(again(square)), dataset_hash(square));

  Dataset sparse = small_sparse();
  sparse.splits.clear();
  EXPECT_EQ(dataset_hash(again(sparse)), dataset_hash(sparse));

  Dataset numbers = small_dense();
  numbers.labels = Labels();
  numbers.labels.task = Task::regression;
  numbers.labels.classes = 1;
  numbers.labels.values =
      std::vector<float>{0.5F, 1, -2, 3, std::numeric_limits<float>::quiet_NaN()};
  numbers.class_names.clear();
  EXPECT_EQ(dataset_hash(again(numbers)), dataset_hash(numbers));
}

TEST_F(SaveNpz, KeepsTheNumberOfClassesAndRefusesWhatReadersWould) {
  Dataset more = small_dense();
  more.class_names.clear();
  more.labels.classes += 3;  // No node has them.
  EXPECT_EQ(again(more).labels.classes, more.labels.classes);

  Dataset cut = small_dense();
  cut.splits[0].role =
      std::vector<Role>{Role::train, Role::train, Role::validation, Role::none, Role::none};
  test::expect_error(ErrorCode::usage, "test_mask would be empty", [&] { again(cut); });
  cut.graph.offsets = std::vector<std::int64_t>(6, 1000);
  test::expect_error(ErrorCode::bad_input, "", [&] { again(cut); });
}

TEST_F(SaveNpz, HasTheNamesAndTypesOfPyTorchGeometric) {
  save_npz(small_dense(), folder_ / "small.npz");
  Dataset one = small_dense();
  one.splits.pop_back();
  save_npz(one, folder_ / "one.npz");
  WRITE_FIXTURE_OR_SKIP("check_archive");
}

TEST_F(SaveNpz, WritesTheSameBytesAgainAndLeavesNothingBehind) {
  const auto file = folder_ / "small.npz";
  save_npz(small_dense(), file);
  const std::string first = read_text(file);
  save_npz(small_dense(), file);
  EXPECT_EQ(read_text(file), first);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  test::expect_error(ErrorCode::usage, "cannot create",
                     [&] { save_npz(small_dense(), folder_ / "none" / "a.npz"); });
}

}  // namespace
}  // namespace heliograph
