#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "graph/io/npy.hpp"
#include "heliograph/error.hpp"
#include "heliograph/partition.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"

namespace heliograph {
namespace {

using ::testing::ElementsAre;

class PartitionFile : public test::FolderTest {
 protected:
  void write(const std::string& text) const { test::write_text(file_, text); }
  std::string read() const { return test::read_text(file_); }
  void expect_refused(const std::string& text, const std::string& words) const {
    write(text);
    test::expect_error(ErrorCode::bad_input, {words, file_.string()},
                       [&] { read_partition(file_, 4, 3); });
  }

  const std::filesystem::path file_ = folder_ / "graph.part.3";
};

TEST_F(PartitionFile, IsOneOwnerALine) {
  const Partition partition{3, {0, 2, 1, 2}};
  write_partition(partition, file_);
  EXPECT_EQ(read(), "0\n2\n1\n2\n");
  const Partition again = read_partition(file_, 4, 3);
  EXPECT_EQ(again.owner, partition.owner);
  EXPECT_EQ(again.parts, 3);
  write_partition(Partition{3, {2, 1, 0, 0}}, file_);
  EXPECT_EQ(read(), "2\n1\n0\n0\n");
}

TEST_F(PartitionFile, IsReadWithOtherLineEnds) {
  write("0\r\n2 \r\n 1\r\n2");
  EXPECT_THAT(read_partition(file_, 4, 3).owner, ElementsAre(0, 2, 1, 2));
}

TEST_F(PartitionFile, ThatDoesNotFitIsRefused) {
  expect_refused("0\n2\n1\n", "3 lines");
  expect_refused("0\n2\n1\n1\n1\n", "5 lines");
  expect_refused("", "0 lines");
  expect_refused("0\n3\n1\n2\n", "line 2: part 3");
  expect_refused("0\n-1\n1\n2\n", "line 2: part -1");
  expect_refused("1\n3\n1\n2\n",
                 "line 2: part 3 is out of range of 3 parts; all would fit if 1 were subtracted: "
                 "ranks count from 0");
  expect_refused("0\n1.5\n1\n2\n", "line 2: '1.5'");
  expect_refused("0\n\n1\n2\n", "line 2: ''");
  expect_refused(std::string("0\nPK\0\x1b[\n", 7), "line 2: 'PK??[' is not a part number");
  expect_refused("0\n99999999999\n1\n2\n", "line 2");
  expect_refused("0\n2\n2\n0\n", "part 1 of 3 empty");
}

TEST_F(PartitionFile, IsAnArrayOfNumPy) {
  const std::filesystem::path array = folder_ / "owners.npy";
  const Partition partition{3, {0, 2, 1, 2}};
  write_partition(partition, array);
  EXPECT_EQ(to_int32(read_npy(array)), partition.owner);
  EXPECT_EQ(read_partition(array, 4, 3).owner, partition.owner);
  test::expect_error(ErrorCode::bad_input, {"node 1: part 2 is out of range", array.string()},
                     [&] { read_partition(array, 4, 2); });
  test::expect_error(ErrorCode::bad_input, "4 entries", [&] { read_partition(array, 5, 3); });
  write_npy(array, std::vector<std::int32_t>{0, 1, 2, 0}, 2, 2);
  test::expect_error(ErrorCode::bad_input, "its shape is (2, 2)",
                     [&] { read_partition(array, 4, 3); });
}

TEST_F(PartitionFile, IsWhatDglDispatches) {
  const std::filesystem::path meta = folder_ / "partition_meta.json";
  const Partition partition{3, {0, 2, 1, 2}};
  write_partition(partition, meta);
  EXPECT_EQ(test::read_text(folder_ / "_N.txt"), "0\n2\n1\n2\n");
  EXPECT_EQ(test::read_text(meta),
            "{\"algo_name\": \"metis\", \"num_parts\": 3, \"version\": \"1.0.0\"}\n");
  for (const char* name : {"partition_meta.json", "_N.txt"}) {
    EXPECT_EQ(read_partition(folder_ / name, 4, 3).owner, partition.owner) << name;
  }
  test::write_text(meta, "{\"num_parts\": 2}");
  test::expect_error(ErrorCode::bad_input, "its num_parts is not 3",
                     [&] { read_partition(meta, 4, 3); });
}

TEST_F(PartitionFile, ThatIsMissingIsNamed) {
  test::expect_error(ErrorCode::bad_input, "graph.part.3 does not exist",
                     [&] { read_partition(file_, 4, 3); });
}

TEST_F(PartitionFile, ServesAsAPartitioner) {
  write("0\n2\n1\n2\n");
  PartitionOptions options;
  options.parts = 3;
  options.partitioner = Partitioner::file;
  options.file = file_;
  EXPECT_THAT(make_partition(test::path_graph(4), options).owner, ElementsAre(0, 2, 1, 2));
}

TEST(PartitionHash, IsXxh64OverPartsAndOwners) {
  // Computed by the published algorithm over the little-endian words 2, 0, 1.
  EXPECT_EQ(partition_hash({2, {0, 1}}), "bd0a026873f70be0");
  EXPECT_NE(partition_hash({2, {0, 1}}), partition_hash({3, {0, 1}}));
  EXPECT_NE(partition_hash({2, {0, 1}}), partition_hash({2, {1, 0}}));
}

}  // namespace
}  // namespace heliograph
