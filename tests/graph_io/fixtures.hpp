#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "heliograph/error.hpp"

namespace heliograph {

/// A fresh folder for each test, removed with it.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string name = (std::filesystem::temp_directory_path() / "heliograph-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    folder_ = name;
  }
  ~FolderTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path folder_;
};

/// As above, filled by one function of fixtures.py.
class PythonTest : public FolderTest {
 protected:
  /// False where the machine has no Python with NumPy and SciPy: then the caller skips.
  bool write_fixture(const std::string& function) {
    const std::string python = HELIOGRAPH_FIXTURE_PYTHON;
    if (python.empty()) return false;
    const std::string command = python + " " + HELIOGRAPH_SOURCE_DIR +
                                "/tests/graph_io/fixtures.py " + function + " " + folder_.string();
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
    return true;
  }
};

#define WRITE_FIXTURE_OR_SKIP(function) \
  if (!write_fixture(function)) GTEST_SKIP() << "no Python with NumPy and SciPy was found"

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace heliograph
