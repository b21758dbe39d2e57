#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph_io/fixtures.hpp"
#include "graph_io/small_graphs.hpp"
#include "heliograph/io.hpp"
#include "support/expect_error.hpp"

// MAT-files of Facebook100, written by SciPy or, where they are rare or faulty, byte by byte.

namespace heliograph {
namespace {

namespace fs = std::filesystem;

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

std::string element(std::uint32_t type, const std::string& data) {
  const auto size = static_cast<std::uint32_t>(data.size());
  return raw({type, size}) + data + std::string((8 - data.size() % 8) % 8, '\0');
}

std::string small_element(std::uint16_t type, std::string data) {
  const auto size = static_cast<std::uint16_t>(data.size());
  data.resize(4);
  return raw({type, size}) + data;
}

enum Type : std::uint16_t { i8 = 1, u8 = 2, u16 = 4, i32 = 5, u32 = 6, f64 = 9, matrix = 14 };
constexpr std::uint32_t kSparse = 5, kDouble = 6, kUint16 = 11, kChar = 4, kComplex = 0x800;

std::string variable(const std::string& name, std::uint32_t flags, std::int32_t rows,
                     std::int32_t cols, const std::string& parts) {
  const std::string label = name.size() <= 4 ? small_element(i8, name) : element(i8, name);
  return element(matrix,
                 element(u32, raw({flags, 0U})) + element(i32, raw({rows, cols})) + label + parts);
}

/// Three nodes with the edges 0 - 1 and 1 - 2, in the least integers that hold them, and an entry
/// that MATLAB reserved.
std::string path_matrix() {
  return variable("A", kSparse, 3, 3,
                  element(u8, raw<std::uint8_t>({1, 0, 2, 1, 0})) +
                      small_element(u8, raw<std::uint8_t>({0, 1, 3, 4})) +
                      element(u8, raw<std::uint8_t>({1, 1, 1, 1, 0})));
}

std::string info(const std::string& numbers, std::uint32_t flags = kUint16, std::int32_t rows = 3,
                 std::int32_t cols = 7) {
  return variable("local_info", flags, rows, cols, numbers);
}

/// By columns: genders 1, 2 and missing, and only one other value, the year of node 2.
std::string three_people() {
  std::vector<std::uint16_t> values(21, 0);
  values[3] = 1;
  values[4] = 2;
  values[17] = 2009;
  return element(u16, {reinterpret_cast<const char*>(values.data()), 42});
}

std::string header() {
  std::string text = "MATLAB 5.0 MAT-file";
  text.resize(124, ' ');
  return text + std::string("\0\1IM", 4);
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  packed.resize(size);
  return raw({15U, static_cast<std::uint32_t>(size)}) + packed;  // Without padding.
}

class MatFile : public PythonTest {
 protected:
  fs::path write(const std::string& variables) {
    const fs::path file = folder_ / "people.mat";
    write_text(file, header() + variables);
    return file;
  }
  void refused(const std::string& variables, const char* part) {
    const fs::path file = write(variables);
    SCOPED_TRACE(part);
    test::expect_error(ErrorCode::bad_input, {file.string(), part}, [&] { load_dataset(file); });
  }
};

TEST_F(MatFile, HasWhatScipyReads) {
  WRITE_FIXTURE_OR_SKIP("facebook100");
  const std::string gender = dataset_hash(load_dataset(folder_ / "gender.npz"));
  for (const char* name : {"full.mat", "packed.mat", "small.mat", "bool.mat"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(detect_format(folder_ / name), InputFormat::facebook100);
    EXPECT_EQ(dataset_hash(load_dataset(folder_ / name)), gender);
  }
  ImportOptions options;
  options.target = "year";
  const Dataset year = load_dataset(folder_ / "packed.mat", options);
  EXPECT_EQ(dataset_hash(year), dataset_hash(load_dataset(folder_ / "year.npz")));
  EXPECT_EQ(year.class_names, (std::vector<std::string>{"2004", "2006", "2007"}));
}

TEST_F(MatFile, MayHoldSmallerIntegersThanItsClasses) {
  for (const bool packed : {false, true}) {
    const auto store = [&](const std::string& bytes) { return packed ? compressed(bytes) : bytes; };
    ImportCounts counts;
    const Dataset dataset =
        load_dataset(write(store(path_matrix()) + store(info(three_people()))), {}, &counts);
    EXPECT_EQ(list(dataset.graph.neighbours), (std::vector<NodeId>{1, 0, 2, 1}));
    EXPECT_TRUE(dataset.graph.edge_weights.empty());
    EXPECT_EQ(counts.edges_listed, 4);
    EXPECT_EQ(list(dataset.labels.class_of), (std::vector<std::int32_t>{0, 1, -1}));
    EXPECT_EQ(list(dataset.features.offsets), (std::vector<std::int64_t>{0, 0, 0, 1}));
    EXPECT_EQ(dataset.features.cols, 1);
  }
}

TEST_F(MatFile, IsRefusedWhereverItIsCutOff) {
  for (const std::string& variables :
       {path_matrix() + info(three_people()),
        compressed(path_matrix()) + compressed(info(three_people()))}) {
    const std::string whole = header() + variables;
    const fs::path file = folder_ / "cut.mat";
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      write_text(file, whole.substr(0, bytes));
      SCOPED_TRACE(bytes);
      test::expect_error(ErrorCode::bad_input, file.string(), [&] { load_dataset(file); });
    }
  }
}

TEST_F(MatFile, IsRefusedOrReadAsBeforeIfACompressedByteChanges) {
  const std::string whole = header() + compressed(path_matrix()) + compressed(info(three_people()));
  const fs::path file = folder_ / "damaged.mat";
  write_text(file, whole);
  const std::string hash = dataset_hash(load_dataset(file));
  for (std::size_t i = header().size(); i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(~damaged[i]);
    write_text(file, damaged);
    SCOPED_TRACE(i);
    std::string read = hash;  // Bits between the data and its checksum mean nothing.
    const auto caught = test::caught_from([&] { read = dataset_hash(load_dataset(file)); });
    if (!caught.text.empty()) {
      EXPECT_EQ(caught.code, ErrorCode::bad_input) << caught.text;
    }
    EXPECT_EQ(read, hash);
  }
}

TEST_F(MatFile, OtherVersionsAreRefusedByName) {
  const fs::path file = folder_ / "other.mat";
  const auto refuse = [&](const std::string& bytes, const char* part) {
    write_text(file, bytes);
    test::expect_error(ErrorCode::bad_input, {file.string(), part}, [&] { load_dataset(file); });
  };
  std::string big = header(), newer = header(), later = header();
  refuse(big.replace(126, 2, "MI"), "is big endian");
  refuse(newer.replace(0, 10, "MATLAB 7.3"), "version 7.3 (HDF5)");
  refuse("\x89HDF\r\n", "version 7.3 (HDF5)");
  refuse(later.replace(125, 1, "\2"), "is not a MATLAB 5 MAT-file");
  refuse("", "is not a MATLAB 5 MAT-file");
  refuse(std::string(200, 'x'), "is not a MATLAB 5 MAT-file");
}

TEST_F(MatFile, FaultyVariablesAreRefusedByName) {
  const std::string people = info(three_people());
  refused("", "has no variable A; found: nothing");
  refused(people, "has no variable A; found: local_info");
  refused(path_matrix() + variable("b\x1b", kChar, 0, 0, ""),
          "has no variable local_info; found: A and b?");
  refused(path_matrix() + path_matrix(), "variable A: occurs twice");
  refused(variable("A", kDouble, 1, 1, element(f64, raw({1.0}))), "variable A: is not a sparse");
  refused(variable("A", kSparse | kComplex, 3, 3, ""), "variable A: holds complex numbers");
  refused(variable("A", kSparse, -3, 3, ""), "variable A: is not a matrix");
  refused(variable("A", kSparse, 3, 3, ""), "variable A: is truncated: it has no row indices");
  refused(path_matrix() + info("", kSparse), "local_info: is not a full matrix of numbers");
  refused(path_matrix() + info("", kChar), "local_info: is not a full matrix of numbers");
  refused(path_matrix() + info(element(i8, "1")), "holds 1 bytes, but its shape is (3, 7)");
  refused(path_matrix() + info(element(16, std::string(21, 'x'))), "elements of type 16, not numb");
  refused(path_matrix() + info(element(u8, std::string(18, '\1')), kDouble, 3, 6),
          "has shape (3, 6), but 3 rows and 7 columns are needed");
  refused(path_matrix() + info(element(f64, std::string(168, '\1'))), "which is not");
  refused(path_matrix() + info(element(u8, "\1\1\1" + std::string(18, '\0'))),
          "no node has a label");
  refused(element(5, "1234"), "variable number 1: its element of type 5 is not a variable");
  refused(compressed(element(5, "1234")), "variable number 1: its compressed element is not");
}

TEST_F(MatFile, WhatItClaimsIsComparedWithItsBytes) {
  const auto sparse = [](std::int32_t rows, std::int32_t cols,
                         std::initializer_list<std::int32_t> ir,
                         std::initializer_list<std::int32_t> jc) {
    return variable("A", kSparse, rows, cols, element(i32, raw(ir)) + element(i32, raw(jc)));
  };
  constexpr std::int32_t kMost = 2147483647;
  refused(sparse(kMost, kMost, {1}, {0, 1}),
          "column starts: holds 2 values for 2147483647 columns");
  refused(sparse(kMost, 1, {1}, {0, 1}), "variable A is 2147483647 x 1, not square");
  refused(sparse(2, 2, {1, 2}, {0, 1, 2}), "row indices: entry 1 is 2, which is not in [0, 2)");
  refused(sparse(2, 2, {1, -1}, {0, 1, 2}), "row indices: entry 1 is -1");
  refused(sparse(2, 2, {1, 0}, {0, 2, 1}), "column starts: falls at column 1");
  refused(sparse(2, 2, {1, 0}, {0, 1, 3}), "column starts: ends at 3, but there are 2 indices");
  refused(sparse(2, 2, {1, 0}, {0, 1, -2}), "column starts: falls at column 1");
  refused(sparse(0, 0, {}, {}), "column starts: holds 0 values for 0 columns");
  refused(path_matrix() + info(three_people(), kUint16, kMost, kMost), "holds 42 bytes, but");
  std::string inner = path_matrix();
  inner.replace(4, 4, raw({0xfffffff0U}));
  refused(inner, "its variable has 80 of 4294967280 bytes");
  refused(compressed(inner), "variable number 1: its size, 4294967280, is implausible");
  inner.replace(4, 4, raw({40U}));
  refused(compressed(inner), "variable number 1: is longer than it says");
  inner.replace(4, 4, raw({4000U}));
  refused(compressed(inner), "variable number 1: cannot be inflated: it ends too early");
}

TEST_F(MatFile, TargetsAreColumnsOfPeopleAndOnlyOfThem) {
  ImportOptions options;
  options.target = "age";
  const fs::path file = write(path_matrix() + info(three_people()));
  test::expect_error(ErrorCode::usage,
                     "target age: Facebook100 has the targets student_fac, gender",
                     [&] { load_dataset(file, options); });
  options.target = "gender";
  EXPECT_EQ(dataset_hash(load_dataset(file, options)), dataset_hash(load_dataset(file)));
  write_text(folder_ / "a.mtx", "");
  test::expect_error(ErrorCode::usage, {"target gender does not apply", "a.mtx has no targets"},
                     [&] { load_dataset(folder_ / "a.mtx", options); });
}

}  // namespace
}  // namespace heliograph
