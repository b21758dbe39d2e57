#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "support/files.hpp"

namespace heliograph {

using test::FolderTest;
using test::read_text;
using test::write_text;

/// A test whose folder one function of fixtures.py fills.
class PythonTest : public FolderTest {
 protected:
  /// False where the machine has no Python with NumPy and SciPy; the test must then be skipped.
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

}  // namespace heliograph
