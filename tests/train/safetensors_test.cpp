#include "train/checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/runs.hpp"

namespace heliograph {
namespace {

using nlohmann::json;

class SafetensorsFile : public ::testing::Test {
 protected:
  SafetensorsFile() { record_ = write_safetensors(disk_files().create(path_), {tensors_, "{}"}); }

  test::TemporaryDirectory folder_;
  std::filesystem::path path_ = folder_ / "w.safetensors";
  std::vector<Tensor> tensors_{{"a.weight", {2, 3}, {1, 2, 3, 4, 5.5F, -6}},
                               {"a.bias", {3}, {0.25F, 1e-38F, 3e38F}}};
  FileRecord record_;
};

// Checks the rules of the format on the bytes, without the reader.
TEST_F(SafetensorsFile, KeepsTheRulesOfTheFormat) {
  const std::string bytes = test::read_text(path_);
  ASSERT_EQ(bytes.size(), record_.bytes);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  ASSERT_EQ(header_bytes % 8, 0U);
  const std::string text = bytes.substr(8, header_bytes);
  EXPECT_EQ(text.front(), '{');
  const std::size_t end = text.find_last_not_of(' ');
  EXPECT_EQ(text[end], '}');
  const json header = json::parse(text);
  for (const auto& item : header.at("__metadata__").items()) {
    EXPECT_TRUE(item.value().is_string()) << item.key();
  }
  EXPECT_EQ(header.at("a.weight"),
            (json{{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {0, 24}}}));
  EXPECT_EQ(header.at("a.bias"),
            (json{{"dtype", "F32"}, {"shape", {3}}, {"data_offsets", {24, 36}}}));
  EXPECT_EQ(header.size(), 3U);
  ASSERT_EQ(bytes.size(), 8 + header_bytes + 36);
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - 4, 4);
  EXPECT_EQ(last, 3e38F);
}

TEST_F(SafetensorsFile, GivesBackEveryBit) {
  for (const FileRecord* record : {&record_, static_cast<FileRecord*>(nullptr)}) {
    const SafetensorsContents read = read_safetensors(path_, record);
    EXPECT_EQ(read.tensors, tensors_);
    EXPECT_EQ(read.text, "{}");
  }
}

// Without a manifest, the file's own checksums must find all damage but to the padding.
TEST_F(SafetensorsFile, FindsEveryDamagedByteByItself) {
  const std::string whole = test::read_text(path_);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x04);
    if (whole[at] == ' ') continue;
    test::write_text(path_, damaged);
    test::expect_error(ErrorCode::bad_input, path_.string(),
                       [&] { read_safetensors(path_, nullptr); });
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    test::write_text(path_, whole.substr(0, size));
    test::expect_error(ErrorCode::bad_input, path_.string(),
                       [&] { read_safetensors(path_, nullptr); });
  }
}

// The checksums do not help against a file that somebody has made.
TEST_F(SafetensorsFile, RefusesHeadersThatAreMadeToHarm) {
  const auto refuse = [&](const std::string& header, const std::string& why) {
    const std::uint64_t bytes = header.size();
    std::string file(sizeof(bytes), '\0');
    std::memcpy(file.data(), &bytes, sizeof(bytes));
    test::write_text(path_, file + header);
    test::expect_error(ErrorCode::bad_input, {path_.string(), why},
                       [&] { read_safetensors(path_, nullptr); });
  };
  const std::string deep(400'000, '['), close(400'000, ']');
  refuse(R"({"__metadata__":{"model":"{}","deep":)" + deep + close + "}}", "damaged");
  // 2^33 x 2^33 x 4 elements are 0 elements in 64 bits.
  refuse(R"({"a":{"dtype":"F32","shape":[8589934592,8589934592,4],"data_offsets":[0,0]},)"
         R"("__metadata__":{"model":"{}"}})",
         "tensor a is damaged");
}

TEST_F(SafetensorsFile, PythonReadsIt) {
  if (std::system("python3 -c 'import safetensors.numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "Python's safetensors is not installed";
  }
  const std::string check = "from safetensors.numpy import load_file; t = load_file('" +
                            path_.string() +
                            "'); assert t['a.weight'].tolist() == [[1, 2, 3], [4, 5.5, -6]]; "
                            "assert t['a.bias'].shape == (3,) and t['a.bias'][0] == 0.25";
  EXPECT_EQ(std::system(("python3 -c \"" + check + "\"").c_str()), 0);
}

}  // namespace
}  // namespace heliograph
