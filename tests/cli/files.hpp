#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "support/files.hpp"

namespace heliograph::test {

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path));
}

/// The lines of a .jsonl file. Throws if one is not JSON or the last is incomplete.
inline std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  if (!text.empty() && text.back() != '\n') throw std::runtime_error("the last line is torn");
  std::vector<nlohmann::json> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

/// A folder with the native graph `ring(nodes)`, and the command to run on it.
class CommandTest : public ::testing::Test {
 protected:
  explicit CommandTest(NodeId nodes = 60) : data_(save_ring(folder_ / "ring", nodes)) {}

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Trains for `epochs` into the run directory of this name.
  void train(const std::string& run, std::vector<std::string> more = {}, int epochs = 3) const {
    more.insert(more.end(), {"--out", path(run), "--metric", "accuracy"});
    const auto outcome = run_command(train_arguments(data_, epochs, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  /// Expects the command to end with `code` and an error that contains `part`.
  void refused(const std::vector<std::string>& words, int code, const std::string& part) const {
    const auto outcome = run_command(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr(part));
  }

  TemporaryDirectory folder_;
  std::string data_;
};

}  // namespace heliograph::test
