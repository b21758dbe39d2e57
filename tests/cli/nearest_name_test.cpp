#include "core/nearest_name.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace heliograph {
namespace {

TEST(EditDistance, CountsInsertDeleteReplaceAndSwap) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("epoch", "epochs"), 1);
  EXPECT_EQ(edit_distance("epochs", "epoch"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("eopchs", "epochs"), 1);
}

TEST(EditDistance, TakesCaseAndUnderscoresAsEqual) {
  EXPECT_EQ(edit_distance("Weight_Decay", "weight-decay"), 0);
}

TEST(NearestName, PicksTheFewestSteps) {
  const std::vector<std::string> names{"hidden", "layers", "lr", "epochs"};
  EXPECT_EQ(nearest_name("layer", names), "layers");
  EXPECT_EQ(nearest_name("eppchs", names), "epochs");
  EXPECT_EQ(nearest_name("hiden", names), "hidden");
}

TEST(NearestName, TakesTheFirstAmongEqualsAndNothingFromNothing) {
  const std::vector<std::string> names{"ab", "ac"};
  EXPECT_EQ(nearest_name("ad", names), "ab");
  EXPECT_EQ(nearest_name("x", std::vector<std::string>{}), "");
}

TEST(NearestName, IsNoOtherWord) {
  const std::vector<std::string> names{"lr", "help", "epochs"};
  EXPECT_EQ(nearest_name("wd", names), "");
  EXPECT_EQ(nearest_name("use-pp", names), "");
  EXPECT_EQ(nearest_name("l", names), "lr");
  EXPECT_EQ(nearest_name("eppochss", names), "epochs");
}

}  // namespace
}  // namespace heliograph
