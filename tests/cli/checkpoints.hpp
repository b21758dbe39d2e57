#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "support/files.hpp"

namespace heliograph::test {

/// Tests of a command that saves checkpoints, with data of 200 nodes.
class CheckpointTest : public CommandTest {
 protected:
  CheckpointTest() : CommandTest(200) {}

  std::filesystem::path saved(const std::string& run, int epochs) const {
    return folder_ / run / "checkpoints" /
           ("epoch-" + std::string(6 - digits(epochs), '0') + std::to_string(epochs));
  }
  static std::size_t digits(int number) { return std::to_string(number).size(); }

  /// metrics.jsonl without times.
  std::vector<nlohmann::json> metrics(const std::string& run) const {
    auto lines = read_lines(folder_ / run / "metrics.jsonl");
    for (auto& line : lines) line.erase("seconds");
    return lines;
  }

  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metrics(a), metrics(b));
    EXPECT_EQ(read_text(folder_ / a / "predictions.npy"),
              read_text(folder_ / b / "predictions.npy"));
    const auto result = [&](const std::string& run) {
      auto object = read_json(folder_ / run / "run.json").at("result");
      for (const char* key : {"epoch_seconds", "seconds", "setup_seconds", "peak_rss_bytes",
                              "setup_peak_rss_bytes", "memory"}) {
        object.erase(key);
      }
      return object;
    };
    EXPECT_EQ(result(a), result(b));
  }

  std::vector<std::string> arguments(const std::string& run, int epochs,
                                     std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--out", path(run), "--metric", "accuracy", "--bits", "1",
                             "--staleness", "1", "--stale-sites", "all", "--eval-every", "3"});
    return train_arguments(data_, epochs, more);
  }
};

}  // namespace heliograph::test
