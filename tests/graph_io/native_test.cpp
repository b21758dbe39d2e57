#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph/io/files.hpp"
#include "graph/io/native_writer.hpp"
#include "graph_io/fixtures.hpp"
#include "graph_io/small_graphs.hpp"
#include "heliograph/io.hpp"
#include "heliograph/partition.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using NativeTest = FolderTest;

void expect_equal(const Dataset& a, const Dataset& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.class_names, b.class_names);
  EXPECT_EQ(a.graph.nodes, b.graph.nodes);
  EXPECT_EQ(a.graph.directed, b.graph.directed);
  EXPECT_EQ(list(a.graph.offsets), list(b.graph.offsets));
  EXPECT_EQ(list(a.graph.neighbours), list(b.graph.neighbours));
  EXPECT_EQ(list(a.graph.edge_weights), list(b.graph.edge_weights));
  EXPECT_EQ(a.features.rows, b.features.rows);
  EXPECT_EQ(a.features.cols, b.features.cols);
  EXPECT_EQ(a.features.sparse, b.features.sparse);
  EXPECT_EQ(list(a.features.dense), list(b.features.dense));
  EXPECT_EQ(list(a.features.offsets), list(b.features.offsets));
  EXPECT_EQ(list(a.features.columns), list(b.features.columns));
  EXPECT_EQ(list(a.features.values), list(b.features.values));
  EXPECT_EQ(a.labels.task, b.labels.task);
  EXPECT_EQ(a.labels.classes, b.labels.classes);
  EXPECT_EQ(list(a.labels.class_of), list(b.labels.class_of));
  EXPECT_EQ(list(a.labels.indicators), list(b.labels.indicators));
  EXPECT_EQ(list(a.labels.labelled), list(b.labels.labelled));
  ASSERT_EQ(a.splits.size(), b.splits.size());
  for (std::size_t s = 0; s < a.splits.size(); ++s) {
    EXPECT_EQ(list(a.splits[s].role), list(b.splits[s].role));
  }
}

/// Changes a manifest and its checksum to match.
void rewrite_manifest(const fs::path& directory, const std::string& text) {
  write_text(directory / "manifest.json", text);
  write_text(directory / "manifest.xxh64", hex64(xxh64(std::as_bytes(std::span(text)))) + "\n");
}

void overwrite_byte(const fs::path& path, std::size_t at, char value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(value);
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

std::vector<fs::path> files_of(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) files.push_back(entry.path());
  return files;
}

TEST_F(NativeTest, RoundTripKeepsEverything) {
  for (const Dataset& dataset : {small_dense(), small_sparse()}) {
    const fs::path path = folder_ / "a" / "b" / dataset.name;
    save_native(dataset, path);
    ImportCounts counts;
    const Dataset loaded = load_dataset(path, {}, &counts);
    expect_equal(dataset, loaded);
    EXPECT_EQ(dataset_hash(dataset), dataset_hash(loaded));
    EXPECT_EQ(counts.nodes, dataset.graph.nodes);
    EXPECT_EQ(counts.entries, dataset.graph.entries());
    EXPECT_EQ(counts.unlabelled, 1);
    EXPECT_EQ(counts.isolated, dataset.graph.directed ? 0 : 1);
  }
}

TEST_F(NativeTest, EdgeWeightsAreAnArrayOfWeightedGraphsOnly) {
  const auto version = [&](const char* name) {
    return nlohmann::json::parse(read_text(folder_ / name / "manifest.json")).at("version");
  };
  save_native(small_dense(), folder_ / "plain");
  EXPECT_FALSE(fs::exists(folder_ / "plain" / "edge_weights.bin"));
  EXPECT_EQ(version("plain"), 1);
  Dataset dataset = small_dense();
  const std::string unweighted = dataset_hash(dataset);
  // Rows 1 3 | 0 2 | 1 3 | 0 2 of the ring 0 - 1 - 2 - 3.
  dataset.graph.edge_weights = std::vector<float>{0.5F, 0, 0.5F, 2, 2, -3, 0, -3};
  EXPECT_NE(dataset_hash(dataset), unweighted);
  const fs::path weighted = folder_ / "weighted";
  save_native(dataset, weighted);
  save_native(dataset, weighted, true);  // its files are known as its own
  EXPECT_EQ(version("weighted"), 2);
  expect_equal(load_dataset(weighted), dataset);
  ImportOptions ignore;
  ignore.ignore_weights = true;
  EXPECT_EQ(dataset_hash(load_dataset(weighted, ignore)), unweighted);
  overwrite_byte(weighted / "edge_weights.bin", 5, 'x');
  test::expect_error(ErrorCode::bad_input, "edge_weights.bin: is damaged",
                     [&] { load_dataset(weighted); });
}

TEST_F(NativeTest, NumbersToPredictAreKept) {
  Dataset dataset = small_dense();
  dataset.class_names.clear();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  dataset.labels = Labels();
  dataset.labels.task = Task::regression;
  dataset.labels.classes = 1;
  dataset.labels.values = std::vector<float>{1.5F, -2, 0, 1e9F, nan};
  save_native(dataset, folder_ / "numbers");
  ImportCounts counts;
  const Dataset loaded = load_dataset(folder_ / "numbers", {}, &counts);
  EXPECT_EQ(loaded.labels.task, Task::regression);
  EXPECT_THAT(list(loaded.labels.values),
              ::testing::ElementsAre(1.5F, -2, 0, 1e9F, ::testing::IsNan()));
  EXPECT_EQ(dataset_hash(loaded), dataset_hash(dataset));
  EXPECT_EQ(counts.unlabelled, 1);
  dataset.labels.values = std::vector<float>{1, 2, std::numeric_limits<float>::infinity(), 4, nan};
  test::expect_error(ErrorCode::bad_input, "the target of node 2 is inf",
                     [&] { save_native(dataset, folder_ / "infinite"); });
  ImportOptions numbers;
  numbers.regression = true;
  save_native(small_dense(), folder_ / "classes");
  test::expect_error(ErrorCode::usage, "are classes",
                     [&] { load_dataset(folder_ / "classes", numbers); });
}

TEST_F(NativeTest, LoadedDatasetOutlivesItsDirectory) {
  save_native(small_dense(), folder_ / "graph");
  const Dataset loaded = load_dataset(folder_ / "graph");
  fs::remove_all(folder_ / "graph");
  expect_equal(loaded, small_dense());
}

TEST_F(NativeTest, EveryFlippedByteIsCaught) {
  for (const Dataset& dataset : {small_dense(), small_sparse()}) {
    const fs::path path = folder_ / dataset.name;
    save_native(dataset, path);
    for (const fs::path& file : files_of(path)) {
      const std::string whole = read_text(file);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        // 'a' and 'A' are the same digit, but not the same byte.
        const char flip = file.extension() == ".xxh64" ? '\x20' : '\x01';
        overwrite_byte(file, i, static_cast<char>(whole[i] ^ flip));
        SCOPED_TRACE(file.string() + " byte " + std::to_string(i));
        test::expect_error(ErrorCode::bad_input, file.string(), [&] { load_dataset(path); });
        if (HasFailure()) return;
        overwrite_byte(file, i, whole[i]);
      }
    }
    EXPECT_NO_THROW(load_dataset(path));
  }
}

TEST_F(NativeTest, EveryTruncationExtensionAndMissingFileIsCaught) {
  for (const Dataset& dataset : {small_dense(), small_sparse()}) {
    const fs::path path = folder_ / dataset.name;
    save_native(dataset, path);
    for (const fs::path& file : files_of(path)) {
      const std::string whole = read_text(file);
      const auto expect_caught = [&] {
        test::expect_error(ErrorCode::bad_input, file.string(), [&] { load_dataset(path); });
      };
      fs::resize_file(file, whole.size() + 1);
      expect_caught();
      for (std::size_t length = whole.size(); length-- > 0;) {
        fs::resize_file(file, length);
        expect_caught();
      }
      fs::remove(file);
      expect_caught();
      write_text(file, whole);
    }
    EXPECT_NO_THROW(load_dataset(path));
  }
}

TEST_F(NativeTest, ManifestThatDoesNotFitIsRefused) {
  save_native(small_dense(), folder_ / "graph");
  const auto original = nlohmann::json::parse(read_text(folder_ / "graph" / "manifest.json"));
  const auto refused = [&](const char* part, auto change) {
    auto changed = original;
    change(changed);
    rewrite_manifest(folder_ / "graph", changed.dump());
    SCOPED_TRACE(part);
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(folder_ / "graph"); });
  };
  refused("version 3", [](auto& m) { m["version"] = 3; });
  refused("version \"1\"", [](auto& m) { m["version"] = "1"; });
  refused("version null", [](auto& m) { m.erase("version"); });
  refused("not the manifest", [](auto& m) { m["format"] = "other"; });
  refused("not the manifest", [](auto& m) { m = nlohmann::json::array(); });
  refused("cannot be interpreted", [](auto& m) { m.erase("nodes"); });
  refused("cannot be interpreted", [](auto& m) { m["labels"]["classes"] = "two"; });
  refused("classes is 4294967298", [](auto& m) { m["labels"]["classes"] = (1LL << 32) + 2; });
  refused("nodes is 5.5", [](auto& m) { m["nodes"] = 5.5; });
  refused("cols is 18446744073709551615", [](auto& m) { m["features"]["cols"] = ~0ULL; });
  refused("splits is 1e+300", [](auto& m) { m["splits"] = 1e300; });
  refused("unknown task", [](auto& m) { m["labels"]["task"] = "ranking"; });
  refused("another dtype", [](auto& m) { m["arrays"][0]["dtype"] = "int32"; });
  refused("does not list the array offsets", [](auto& m) { m["arrays"].erase(0); });
  refused("not 7", [](auto& m) { m["nodes"] = 6; });
  refused("not in [0, 1)", [](auto& m) {
    m["labels"]["classes"] = 1;
    m["labels"]["class_names"] = nlohmann::json::array();
  });
  refused("3 class names", [](auto& m) { m["labels"]["class_names"] = {"a", "b", "c"}; });
  refused("two classes have the name 'a'", [](auto& m) {
    m["labels"]["class_names"] = {"a", "a"};
  });
  rewrite_manifest(folder_ / "graph", "{ not json");
  test::expect_error(ErrorCode::bad_input, "not the manifest",
                     [&] { load_dataset(folder_ / "graph"); });
}

TEST_F(NativeTest, BrokenRulesBehindRightChecksumsAreRefused) {
  const fs::path path = folder_ / "graph";
  const auto refused = [&](const char* part, std::vector<std::int32_t> neighbours) {
    save_native(small_dense(), path, true);
    auto manifest = nlohmann::json::parse(read_text(path / "manifest.json"));
    const auto bytes = std::as_bytes(std::span(neighbours));
    write_text(path / "neighbours.bin",
               std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    for (auto& array : manifest["arrays"]) {
      if (array["name"] != "neighbours") continue;
      array["count"] = neighbours.size();
      array["xxh64"] = hex64(xxh64(bytes));
    }
    rewrite_manifest(path, manifest.dump());
    SCOPED_TRACE(part);
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(path); });
  };
  ASSERT_THAT(list(small_dense().graph.neighbours), ::testing::ElementsAre(1, 3, 0, 2, 1, 3, 0, 2));
  refused("holds 2147483647, which is not in [0, 5)", {1, 2147483647, 0, 2, 1, 3, 0, 2});
  refused("holds -2147483648", {-2147483648, 3, 0, 2, 1, 3, 0, 2});
  refused("does not ascend", {3, 1, 0, 2, 1, 3, 0, 2});
  refused("its own neighbour", {0, 3, 0, 2, 1, 3, 0, 2});
  refused("offsets ends at 8, but there are 7 entries", {1, 3, 0, 2, 1, 3, 0});
  refused("only one of nodes 0 and 2 lists the other", {1, 2, 0, 2, 1, 3, 0, 2});
}

TEST_F(NativeTest, OverwritesOnlyWhenToldAndOnlyGraphs) {
  save_native(small_dense(), folder_ / "graph");
  test::expect_error(ErrorCode::usage, "exists already",
                     [&] { save_native(small_sparse(), folder_ / "graph"); });
  expect_equal(load_dataset(folder_ / "graph"), small_dense());
  save_native(small_sparse(), folder_ / "graph", true);
  expect_equal(load_dataset(folder_ / "graph"), small_sparse());
  fs::create_directory(folder_ / "mine");
  write_text(folder_ / "mine" / "thesis.txt", "words");
  test::expect_error(ErrorCode::usage, "is not replaced",
                     [&] { save_native(small_dense(), folder_ / "mine", true); });
  EXPECT_EQ(read_text(folder_ / "mine" / "thesis.txt"), "words");
  test::expect_error(ErrorCode::usage, "not a directory",
                     [&] { save_native(small_dense(), folder_ / "mine" / "thesis.txt", true); });
  // Files that are not of a graph, in its folder or under a name that other programs use too.
  write_text(folder_ / "graph" / "notes.txt", "words");
  test::expect_error(ErrorCode::usage, "holds notes.txt",
                     [&] { save_native(small_dense(), folder_ / "graph", true); });
  EXPECT_EQ(read_text(folder_ / "graph" / "notes.txt"), "words");
  fs::remove(folder_ / "graph" / "notes.txt");
  fs::create_directory(folder_ / "web");
  write_text(folder_ / "web" / "manifest.json", R"({"name": "an app"})");
  test::expect_error(ErrorCode::usage, "not the manifest of a graph",
                     [&] { save_native(small_dense(), folder_ / "web", true); });
  fs::create_directory(folder_ / "web" / "features.bin");
  test::expect_error(ErrorCode::usage, "holds features.bin",
                     [&] { save_native(small_dense(), folder_ / "web", true); });
  EXPECT_TRUE(fs::exists(folder_ / "web" / "manifest.json"));
  // A damaged graph still counts as a graph.
  fs::remove(folder_ / "graph" / "manifest.json");
  save_native(small_dense(), folder_ / "graph", true);
  expect_equal(load_dataset(folder_ / "graph"), small_dense());
  EXPECT_EQ(files_of(folder_).size(), 3u);
}

TEST_F(NativeTest, WriterChecksWhatItWasGiven) {
  const Dataset dataset = small_dense();
  const std::vector<std::int64_t> offsets = {0, 0};
  test::expect_error(ErrorCode::usage, "neighbours was not written", [&] {
    NativeWriter writer(folder_ / "graph", false);
    writer.append(native_array::offsets,
                  std::span<const std::int64_t>(std::vector<std::int64_t>(6)));
    writer.finish(dataset);
  });
  test::expect_error(ErrorCode::usage, "offsets holds 2 int64 values, not 6", [&] {
    NativeWriter writer(folder_ / "graph", false);
    writer.append(native_array::offsets, std::span<const std::int64_t>(offsets));
    writer.finish(dataset);
  });
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(NativeTest, ChunksInAnyInterleavingEqualOneSave) {
  const Dataset dataset = small_dense();
  save_native(dataset, folder_ / "whole");
  NativeWriter writer(folder_ / "chunks", false);
  std::map<std::string, std::size_t> longest;
  for (std::size_t i = 0; i < 12; ++i) {
    for_each_array(dataset, [&](std::string_view name, const auto& array, auto&&) {
      if (i < array.size()) writer.append(name, array.span().subspan(i, 1));
      longest[std::string(name)] = array.size();
    });
  }
  writer.finish(dataset);
  for (const auto& [name, size] : longest) ASSERT_LE(size, 12u) << name;
  for (const fs::path& file : files_of(folder_ / "whole")) {
    EXPECT_EQ(read_text(file), read_text(folder_ / "chunks" / file.filename())) << file;
  }
}

TEST_F(NativeTest, AFullDiskIsNamedAndLeavesNothing) {
  save_native(small_dense(), folder_ / "old");
  // A limit on file sizes stands in for a full disk: write(2) fails half-way in the same manner.
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit small_limit = old_limit;
  small_limit.rlim_cur = 20;
  ::setrlimit(RLIMIT_FSIZE, &small_limit);
  test::expect_error(ErrorCode::resource, "cannot write",
                     [&] { save_native(small_dense(), folder_ / "graph"); });
  test::expect_error(ErrorCode::resource, "cannot write",
                     [&] { save_native(small_sparse(), folder_ / "old", true); });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(files_of(folder_).size(), 1u);
  expect_equal(load_dataset(folder_ / "old"), small_dense());
}

TEST_F(NativeTest, WritersOfOneTargetLeaveOneGraphAndNothingElse) {
  const fs::path target = folder_ / "graph";
  save_native(small_dense(), target);
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&] {
        for (int turn = 0; turn < 25; ++turn) {
          try {
            save_native(small_dense(), target, true);
          } catch (const std::exception&) {
            // Another writer was faster.
          }
        }
      });
    }
  }
  EXPECT_EQ(files_of(folder_), std::vector{target});
  expect_equal(load_dataset(target), small_dense());
}

TEST_F(NativeTest, ADeviceWithoutSpaceIsAResourceError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  FileWriter file("/dev/full");
  const std::vector<std::byte> bytes(100);
  test::expect_error(ErrorCode::resource, "/dev/full", [&] {
    file.write(bytes);
    file.close();
  });
}

TEST_F(NativeTest, APipeIsNotReplaced) {
  for (const char* name : {"graph.npz", "owners.npy", "owners.txt"}) {
    const fs::path pipe = folder_ / name;
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    test::expect_error(ErrorCode::usage, "is a device, pipe or socket: it is not replaced", [&] {
      if (pipe.extension() == ".npz") save_npz(small_dense(), pipe);
      write_partition({1, {0, 0, 0}}, pipe);
    });
    EXPECT_TRUE(fs::is_fifo(pipe));
  }
}

TEST(DatasetHash, SeesEveryPart) {
  const std::string hash = dataset_hash(small_dense());
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, dataset_hash(small_dense()));
  const auto differs = [&](auto change) {
    Dataset changed = small_dense();
    change(changed);
    EXPECT_NE(dataset_hash(changed), hash);
  };
  differs([](Dataset& d) { d.graph.directed = true; });
  differs([](Dataset& d) { d.graph.neighbours = std::vector<NodeId>(8, 1); });
  differs([](Dataset& d) { d.features.dense = std::vector<float>(10, 1); });
  differs([](Dataset& d) { d.labels.class_of = std::vector<std::int32_t>(5, 1); });
  differs([](Dataset& d) { d.splits.pop_back(); });
}

}  // namespace
}  // namespace heliograph
