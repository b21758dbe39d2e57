#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace heliograph::test {

/// An empty folder, which is removed with its contents when this object ends.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Gives each test an empty folder, which is removed after the test.
class FolderTest : public ::testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::filesystem::path& folder_ = directory_.path();
};

/// The bytes of a file; none if it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// Writes a file and makes the folders above it. Throws std::runtime_error if it cannot be written.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace heliograph::test
