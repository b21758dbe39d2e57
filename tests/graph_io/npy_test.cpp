#include "graph/io/npy.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "graph/io/parts.hpp"
#include "graph_io/fixtures.hpp"
#include "heliograph/io.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using NpyTest = PythonTest;

TEST_F(NpyTest, EveryNumericDtypeAndOrderConverts) {
  WRITE_FIXTURE_OR_SKIP("npy_dtypes");
  for (const char* dtype :
       {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}) {
    for (const char* order : {"", "_fortran"}) {
      SCOPED_TRACE(std::string(dtype) + order);
      const NpyArray array = read_npy(folder_ / (std::string(dtype) + order + ".npy"));
      EXPECT_THAT(array.shape, ElementsAre(2, 3));
      const Array<float> floats = to_float32(array);
      EXPECT_THAT(std::vector<float>(floats.begin(), floats.end()), ElementsAre(0, 1, 1, 1, 0, 0));
      EXPECT_THAT(to_int32(array), ElementsAre(0, 1, 1, 1, 0, 0));
      EXPECT_THAT(to_int64(array), ElementsAre(0, 1, 1, 1, 0, 0));
      EXPECT_THAT(to_flags(array), ElementsAre(0, 1, 1, 1, 0, 0));
    }
  }
}

TEST_F(NpyTest, HalvesStringsScalarsAndVersions) {
  WRITE_FIXTURE_OR_SKIP("npy_dtypes");
  const Array<float> half = to_float32(read_npy(folder_ / "half.npy"));
  ASSERT_EQ(half.size(), 7u);
  EXPECT_EQ(half[0], 1.5F);
  EXPECT_EQ(half[1], -2.25F);
  EXPECT_EQ(half[2], 0x1p-24F);  // 6e-8 rounds to the smallest half.
  EXPECT_EQ(half[3], 65504.0F);
  EXPECT_TRUE(std::isinf(half[4]));
  EXPECT_TRUE(std::isnan(half[5]));
  EXPECT_TRUE(half[6] == 0 && std::signbit(half[6]));
  EXPECT_THAT(to_strings(read_npy(folder_ / "strings.npy")),
              ElementsAre("tv", "gr\u00fcn", "\u4e2d\u56fd", "\U0001f600"));
  EXPECT_THAT(to_int32(read_npy(folder_ / "scalar.npy")), ElementsAre(7));
  EXPECT_TRUE(to_float32(read_npy(folder_ / "empty.npy")).empty());
  for (const char* name : {"version1.npy", "version2.npy", "version3.npy"}) {
    EXPECT_THAT(to_int32(read_npy(folder_ / name)), ElementsAre(0, 1, 1, 1, 0, 0)) << name;
  }
}

TEST_F(NpyTest, RowMajorFp32IsBorrowedFromTheMapping) {
  WRITE_FIXTURE_OR_SKIP("npy_dtypes");
  const NpyArray array = read_npy(folder_ / "f4.npy");
  EXPECT_EQ(static_cast<const void*>(to_float32(array).data()), array.data.data());
}

TEST_F(NpyTest, RefusesByName) {
  WRITE_FIXTURE_OR_SKIP("npy_dtypes");
  const auto refused = [&](const char* name, const char* part, auto convert) {
    SCOPED_TRACE(name);
    test::expect_error(ErrorCode::bad_input, part, [&] { convert(read_npy(folder_ / name)); });
    test::expect_error(ErrorCode::bad_input, name, [&] { convert(read_npy(folder_ / name)); });
  };
  refused("big_endian.npy", "big endian", [](const auto& a) { to_int32(a); });
  refused("object.npy", "pickled objects", [](const auto& a) { to_int32(a); });
  refused("object.npy", "pickled objects", [](const auto& a) { to_float32(a); });
  refused("structured.npy", "structured", [](const auto& a) { to_int32(a); });
  refused("complex.npy", "<c8", [](const auto& a) { to_float32(a); });
  refused("strings.npy", "holds text (dtype '<U", [](const auto& a) { to_float32(a); });
  refused("u8_big.npy", "entry 0 is 9223372036854775808", [](const auto& a) { to_int64(a); });
  refused("f8_big.npy", "entry [1, 1]", [](const auto& a) { to_float32(a); });
  refused("f8_part.npy", "entry 1 is 2.5", [](const auto& a) { to_int64(a); });
  refused("half.npy", "neither 0 nor 1", [](const auto& a) { to_flags(a); });
  refused("three.npy", "column-major", [](const auto& a) { to_int32(a); });
  test::expect_error(ErrorCode::bad_input, "absent.npy", [&] { read_npy(folder_ / "absent.npy"); });
}

TEST_F(NpyTest, EveryTruncationAndATrailingByteAreRefused) {
  WRITE_FIXTURE_OR_SKIP("npy_dtypes");
  const std::string whole = read_text(folder_ / "i4.npy");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_text(folder_ / "cut.npy", whole.substr(0, length));
    test::expect_error(ErrorCode::bad_input, "cut.npy", [&] { read_npy(folder_ / "cut.npy"); });
  }
  write_text(folder_ / "long.npy", whole + "x");
  test::expect_error(ErrorCode::bad_input, "too long", [&] { read_npy(folder_ / "long.npy"); });
}

TEST_F(NpyTest, AHeaderAloneCannotClaimValues) {
  const auto write = [&](const std::string& dtype, const std::string& shape,
                         const std::string& data = {}) {
    const std::string header =
        "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
    std::string text("\x93NUMPY\x01\x00", 8);
    text += {static_cast<char>(header.size()), '\x00'};
    write_text(folder_ / "claim.npy", text + header + data);
  };
  for (const char* dtype : {"<U0", "<i0", "<f0", "|V0"}) {
    write(dtype, "(1099511627776,)");
    test::expect_error(ErrorCode::bad_input, "values of no bytes",
                       [&] { read_npy(folder_ / "claim.npy"); });
  }
  write("<f4", "(4611686018427387904, 4)");
  test::expect_error(ErrorCode::bad_input, "shape overflows",
                     [&] { read_npy(folder_ / "claim.npy"); });
  write("<U0", "(0,)");
  EXPECT_TRUE(to_strings(read_npy(folder_ / "claim.npy")).empty());
  for (const std::uint32_t code : {0xd800U, 0xdfffU, 0x110000U}) {
    write("<U1", "(1,)", std::string(reinterpret_cast<const char*>(&code), sizeof(code)));
    test::expect_error(ErrorCode::bad_input, "entry 0 is not unicode",
                       [&] { to_strings(read_npy(folder_ / "claim.npy")); });
  }
  // Nor do pickled objects prove that there are so many.
  write("|O", "(1099511627776,)");
  const NpyArray objects = read_npy(folder_ / "claim.npy");
  test::expect_error(ErrorCode::bad_input, "pickled objects", [&] { to_int64(objects); });
  test::expect_error(ErrorCode::bad_input, "pickled objects", [&] { to_float32(objects); });
  test::expect_error(ErrorCode::bad_input, "pickled objects", [&] { to_flags(objects); });
  test::expect_error(ErrorCode::bad_input, "pickled objects", [&] { rows_of_labels(objects); });
  // Rows without columns take no bytes either.
  write("<f4", "(2147483647, 0)");
  test::expect_error(ErrorCode::bad_input, "has shape (2147483647, 0)",
                     [&] { rows_of_labels(read_npy(folder_ / "claim.npy")); });
  fs::rename(folder_ / "claim.npy", folder_ / "features.npy");
  write_text(folder_ / "edges.csv", "0,1\n");
  ImportOptions options;
  options.index_base = 0;
  test::expect_error(ErrorCode::bad_input, "features.npy: has no columns",
                     [&] { load_dataset(folder_, options); });
}

TEST_F(NpyTest, NumpyReadsWhatIsWritten) {
  const std::vector<std::int32_t> flat = {1, -2, 2147483647};
  const std::vector<float> table = {0.5F, 1.5F, 2.5F, -1, 0, 3};
  write_npy(folder_ / "flat.npy", flat, 3, 1);
  write_npy(folder_ / "table.npy", table, 2, 3);
  write_npy(folder_ / "empty.npy", std::vector<float>(), 0, 4);
  EXPECT_EQ(to_int32(read_npy(folder_ / "flat.npy")), flat);
  EXPECT_THAT(read_npy(folder_ / "flat.npy").shape, ElementsAre(3));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3);
  WRITE_FIXTURE_OR_SKIP("check_written");
}

TEST_F(NpyTest, WriteRefusesWrongSizesAndUnwritablePlaces) {
  const std::vector<float> values(6);
  test::expect_error(ErrorCode::usage, "6 values",
                     [&] { write_npy(folder_ / "a.npy", values, 2, 2); });
  test::expect_error(ErrorCode::usage, "cannot create",
                     [&] { write_npy(folder_ / "none" / "a.npy", values, 2, 3); });
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace heliograph
