#include "comm/rendezvous/launch_variables.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using test::error_of;

constexpr std::array kNames{"RANK",
                            "WORLD_SIZE",
                            "LOCAL_RANK",
                            "LOCAL_WORLD_SIZE",
                            "MASTER_ADDR",
                            "MASTER_PORT",
                            "TORCHELASTIC_USE_AGENT_STORE",
                            "TORCHELASTIC_RUN_ID",
                            "TORCHELASTIC_RESTART_COUNT",
                            "HELIOGRAPH_RUN_KEY"};
using Variables = std::map<std::string, std::string>;

/// The launch variables of an environment that has these variables and no others.
std::optional<LaunchVariables> said(const Variables& variables) {
  for (const char* name : kNames) ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  struct Clear {
    ~Clear() {
      for (const char* name : kNames) ::unsetenv(name);
    }
  } clear;
  return launch_variables();
}

Variables whole() {
  return {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
}

Variables with(const std::string& name, const std::string& value) {
  Variables all = whole();
  all[name] = value;
  return all;
}

TEST(LaunchVariables, SayWhoAndWhere) {
  EXPECT_FALSE(said({}));
  EXPECT_FALSE(said({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}, {"LOCAL_RANK", "0"}}));
  const auto found = said(with("LOCAL_RANK", "1"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->ranks, 4);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->address, "node1");
  EXPECT_EQ(found->ports(), std::vector<std::uint16_t>{29500});
}

TEST(LaunchVariables, MeanThisHostIfAllRanksAreOnIt) {
  EXPECT_EQ(said(with("LOCAL_WORLD_SIZE", "4"))->address, "localhost");
  EXPECT_EQ(said(with("LOCAL_WORLD_SIZE", "2"))->address, "node1");
}

TEST(LaunchVariables, HoldTheKeyOfTheRun) {
  const auto with_key = said(with("HELIOGRAPH_RUN_KEY", "secret"));
  EXPECT_EQ(with_key->key.prove({}), RunKey("secret").prove({}));
  EXPECT_TRUE(said(with("HELIOGRAPH_RUN_KEY", ""))->key.empty());
  EXPECT_TRUE(said(whole())->key.empty());
}

TEST(LaunchVariables, OfASingleProcessNeedNoAddress) {
  const auto found = said({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, 1);
}

TEST(LaunchVariables, ThatAreMissingAreNamed) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables some = whole();
    some.erase(name);
    test::expect_error(ErrorCode::usage, "but not " + std::string(name) + ":", [&] { said(some); });
  }
  const auto caught = error_of([] { said({{"RANK", "0"}}); });
  EXPECT_NE(caught.text.find("has RANK but not WORLD_SIZE, MASTER_ADDR, MASTER_PORT"),
            std::string::npos)
      << caught.text;
}

TEST(LaunchVariables, ThatMakeNoSenseAreNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"RANK", "two"},          {"RANK", "-1"},       {"RANK", "4"},
      {"WORLD_SIZE", "0"},      {"WORLD_SIZE", "4x"}, {"MASTER_PORT", "0"},
      {"MASTER_PORT", "65536"}, {"LOCAL_RANK", "-1"}, {"LOCAL_WORLD_SIZE", "0"}};
  for (const auto& [name, value] : wrong) {
    test::expect_error(ErrorCode::usage, name + "=" + value,
                       [&, n = name, v = value] { said(with(n, v)); });
  }
  Variables all = with("LOCAL_RANK", "2");
  all["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_NE(error_of([&] { said(all); }).text.find("LOCAL_RANK=2"), std::string::npos);
}

TEST(LaunchVariables, AllRanksComputeTheSamePortsWhereTorchrunListensItself) {
  const auto found = said(with("TORCHELASTIC_USE_AGENT_STORE", "True"));
  EXPECT_EQ(found->ports(),
            (std::vector<std::uint16_t>{29501, 29502, 29503, 29504, 29505, 29506, 29507, 29508}));
  EXPECT_EQ(said(with("TORCHELASTIC_USE_AGENT_STORE", "False"))->ports(),
            std::vector<std::uint16_t>{29500});
  Variables last = with("TORCHELASTIC_USE_AGENT_STORE", "True");
  last["MASTER_PORT"] = "65533";
  EXPECT_EQ(said(last)->ports().front(), 65532);
  EXPECT_EQ(said(last)->ports().back(), 65525);
}

TEST(LaunchVariables, TellRunsApart) {
  const std::uint64_t id = said(whole())->run_id();
  EXPECT_EQ(said(with("RANK", "3"))->run_id(), id);
  EXPECT_EQ(said(with("MASTER_ADDR", "10.0.0.1"))->run_id(), id);
  EXPECT_NE(said(with("MASTER_PORT", "29501"))->run_id(), id);
  EXPECT_NE(said(with("TORCHELASTIC_RUN_ID", "a"))->run_id(), id);
  EXPECT_NE(said(with("TORCHELASTIC_RESTART_COUNT", "1"))->run_id(), id);
}

}  // namespace
}  // namespace heliograph
