#include "graph/io/files.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <vector>

#include "support/expect_error.hpp"
#include "support/files.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// Ends the process: with 0 if what is published is named and alone left in the folder.
void abandon_some(const fs::path& folder) {
  write_file_atomically(folder / "file", {});
  NewDirectory whole(folder / "whole");
  const NewDirectory begun(folder / "begun");
  write_file_atomically(whole.temporary() / "a", {});
  write_file_atomically(begun.temporary() / "a", {});
  whole.publish();
  const TemporaryPath temporary(folder / "temporary");
  test::write_text(temporary.path(), "");
  const std::vector<fs::path> expected{folder / "file", folder / "whole"};
  const bool named = abandon_unpublished(true) == expected;
  const auto left = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  fs::remove_all(folder);
  std::_Exit(named && left == 2 ? 0 : 1);
}

TEST(FilesDeathTest, AbandoningKeepsWhatIsPublishedAndNamesIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const test::TemporaryDirectory folder;
  EXPECT_EXIT(abandon_some(folder.path()), ::testing::ExitedWithCode(0), "");
}

TEST(Files, AreThereOrNotUnlessTheSystemDoesNotTell) {
  const test::TemporaryDirectory folder;
  test::write_text(folder.path() / "file", "");
  EXPECT_TRUE(is_there(folder.path() / "file"));
  EXPECT_FALSE(is_there(folder.path() / "none"));
  EXPECT_FALSE(is_there(folder.path() / "file" / "within"));
  fs::create_symlink("loop", folder.path() / "loop");  // Root may search every folder, but no loop.
  test::expect_error(ErrorCode::bad_input, {"cannot read", "loop/within"},
                     [&] { is_there(folder.path() / "loop" / "within"); });
}

}  // namespace
}  // namespace heliograph
