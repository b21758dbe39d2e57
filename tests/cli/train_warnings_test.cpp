#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"

// What train warns of before the first epoch.

namespace heliograph {
namespace {

using test::run_command;
using test::train_arguments;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainWarnings : public test::CommandTest {
 protected:
  TrainWarnings() : CommandTest(200) {}

  /// The lines with warnings of a run of one epoch on two ranks, with `more` flags.
  std::string warnings(const std::vector<std::string>& more) const {
    const auto outcome = run_command(train_arguments(data_, 1, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string lines;
    for (std::size_t at = 0; (at = outcome.err.find("warning: ", at)) != std::string::npos; ++at) {
      lines += outcome.err.substr(at, outcome.err.find('\n', at) - at) + "\n";
    }
    return lines;
  }
};

TEST_F(TrainWarnings, NameAConfigsReadingOfANativeGraph) {
  const std::string config = path("config.json");
  test::write_text(config, R"({"keep-direction": true})");
  EXPECT_EQ(warnings({"--config", config}),
            "warning: --keep-direction has no effect: " + data_ + " holds an undirected graph\n");
  test::write_text(config, R"({"index-base": 1})");
  EXPECT_EQ(warnings({"--config", config}),
            "warning: --index-base has no effect: " + data_ +
                " is a native graph, whose edges are read already\n");
}

TEST_F(TrainWarnings, NameFlagsWithoutEffect) {
  EXPECT_EQ(
      warnings({"--parts", "1", "--bits", "1", "--staleness", "2"}),
      "warning: --bits and --staleness have no effect with --parts 1: nothing is exchanged\n");
  EXPECT_EQ(warnings({"--parts", "1", "--bits", "32", "--staleness", "0"}), "");
  EXPECT_EQ(warnings({"--parts", "1", "--bits-policy", "degree", "--bits", "2"}),
            "warning: --bits and --bits-policy have no effect with --parts 1: nothing is "
            "exchanged\n");
  EXPECT_THAT(warnings({"--bits-policy", "degree", "--bits", "8"}),
              HasSubstr("--bits-policy has no effect with rows that have 8 bits throughout\n"));
  EXPECT_THAT(warnings({"--bits-policy", "degree", "--bits", "4", "--hidden", "2"}),
              HasSubstr("16 bits: --bits 16 sends less"));
  EXPECT_EQ(warnings({"--sync-every", "3"}),
            "warning: --sync-every has no effect with --staleness 0\n");
  EXPECT_EQ(warnings({"--stale-sites", "all"}),
            "warning: --stale-sites has no effect with --staleness 0\n");
  EXPECT_EQ(warnings({"--verify", "2"}), "warning: --verify 2 verifies nothing in 1 epoch\n");
  EXPECT_THAT(warnings({"--layers", "1", "--staleness", "1", "--stale-sites", "layers.1.forward"}),
              HasSubstr("warning: --staleness and --stale-sites have no effect with --layers 1"));
  EXPECT_EQ(warnings({"--layers", "1", "--hidden", "64", "--norm", "batch"}),
            "warning: --norm and --hidden have no effect with --layers 1: there is no hidden "
            "layer\n");
  EXPECT_EQ(warnings({"--layers", "1", "--output-linear", "--norm", "batch"}), "");
  EXPECT_EQ(warnings({"--layers", "1", "--parts", "2", "--bits", "1", "--exchange", "cover"}),
            "warning: --exchange and --bits have no effect with --layers 1: the features of other "
            "ranks' nodes are exchanged once, before training\n"
            "warning: --hidden has no effect with --layers 1: there is no hidden layer\n");
  EXPECT_THAT(warnings({"--model", "appnp", "--no-transform-first"}),
              HasSubstr("--no-transform-first has no effect with "));
  EXPECT_EQ(warnings({"--layers", "1", "--model", "gin", "--norm", "batch"}), "");
  EXPECT_THAT(warnings({"--threads-per-rank", "1000", "--parts", "1"}),
              HasSubstr("warning: --threads-per-rank 1000 is more than the "));
}

TEST_F(TrainWarnings, NameALagThatIsNeverReached) {
  EXPECT_EQ(
      warnings({"--staleness", "100", "--epochs", "2"}),
      "warning: --staleness 100 is never reached in 2 epochs, 1 of them synchronous: halo rows "
      "are at most 1 epoch old\n");
  EXPECT_THAT(warnings({"--staleness", "25", "--epochs", "51", "--bits", "auto:2"}),
              HasSubstr("warning: --staleness 25 is never reached in 51 epochs, 4 of them "
                        "synchronous: halo rows are at most 24 epochs old\n"));
  EXPECT_THAT(warnings({"--staleness", "23", "--epochs", "51", "--bits", "auto:2"}),
              Not(HasSubstr("never reached")));
  EXPECT_EQ(warnings({"--staleness", "1", "--epochs", "2"}), "");
  EXPECT_EQ(
      warnings({"--staleness", "1", "--epochs", "4", "--warmup-epochs", "4"}),
      "warning: --staleness 1 is never reached in 4 epochs, 4 of them synchronous: halo rows are "
      "at most 0 epochs old\n");
  EXPECT_EQ(warnings({"--staleness", "1", "--epochs", "4", "--warmup-epochs", "3"}), "");
  EXPECT_EQ(
      warnings({"--staleness", "1", "--epochs", "4", "--sync-every", "1"}),
      "warning: --staleness 1 is never reached in 4 epochs, 4 of them synchronous: halo rows are "
      "at most 0 epochs old\n");
  EXPECT_EQ(warnings({"--staleness", "1", "--epochs", "4", "--sync-every", "2"}), "");
  EXPECT_EQ(warnings({"--layers", "4", "--staleness", "1", "--stale-sites", "all", "--epochs", "3",
                      "--warmup-epochs", "3"}),
            "warning: --staleness 1 is never reached in 3 epochs, 3 of them synchronous: halo rows "
            "are at most 0 epochs old\n");
}

TEST_F(TrainWarnings, NameDeepModels) {
  EXPECT_THAT(
      warnings({"--model", "appnp", "--staleness", "1", "--stale-sites", "all", "--epochs", "2"}),
      HasSubstr("warning: 10 hops with --staleness 1 often lose much of their score"));
  EXPECT_THAT(warnings({"--model", "appnp", "--bits", "1"}),
              HasSubstr("warning: 10 hops at 1 bit can lose score on some graphs"));
  EXPECT_THAT(warnings({"--model", "appnp", "--bits", "auto"}),
              HasSubstr("warning: 10 hops in the bytes of 1 bit can lose score on some graphs"));
  EXPECT_THAT(warnings({"--model", "appnp", "--bits", "auto:1"}),
              HasSubstr("warning: 10 hops in the bytes of 1 bit can lose score on some graphs"));
  EXPECT_THAT(warnings({"--layers", "4", "--staleness", "1", "--epochs", "2",
                        "--no-transform-first", "--stale-sites",
                        "layers.1.forward,layers.2.forward,layers.3.forward,layers.1.backward,"
                        "layers.2.backward,layers.3.backward"}),
              HasSubstr("warning: 4 layers with --staleness 1 often lose much of their score"));
}

TEST_F(TrainWarnings, NameCoarseGradientsOfAttention) {
  const char* const said = "gradients of attention lose much of their precision at 1 bit: try ";
  EXPECT_THAT(warnings({"--model", "gat", "--bits", "1"}), HasSubstr(said));
  EXPECT_THAT(warnings({"--model", "gat", "--bits", "1", "--bits-backward", "4"}),
              Not(HasSubstr(said)));
  // The first layer exchanges nothing in an epoch.
  EXPECT_THAT(warnings({"--model", "gat", "--bits", "1", "--layers", "1"}), Not(HasSubstr(said)));
}

TEST_F(TrainWarnings, NameWhatChosenBitsLeave) {
  EXPECT_THAT(warnings({"--dropout", "0", "--bits-forward", "2", "--bits-backward", "2", "--bits",
                        "auto:2", "--no-transform-first", "--hidden", "16"}),
              HasSubstr("could spend; --bits auto:4 gives it more\n"));
  EXPECT_THAT(warnings({"--dropout", "0", "--bits-forward", "4", "--bits-backward", "4", "--bits",
                        "auto:2", "--no-transform-first", "--hidden", "16"}),
              HasSubstr("could spend\n"));
  EXPECT_THAT(warnings({"--no-kept-columns", "--bits", "auto:2"}),
              HasSubstr("warning: --no-kept-columns has no effect with --bits auto, which "));
}

TEST_F(TrainWarnings, NameAWarmUpThatTakesTheWholeRun) {
  const auto outcome = run_command(train_arguments(data_, 2, {"--lr-warmup", "2"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("--lr-warmup 2 is not shorter than --epochs 2"));
}

TEST_F(TrainWarnings, NameDeepStaleRuns) {
  std::vector<std::string> words{"train",  "--data",   data_,         "--parts",  "2",
                                 "--bits", "1",        "--staleness", "1",        "--layers",
                                 "5",      "--hidden", "4",           "--epochs", "2"};
  EXPECT_THAT(run_command(words).err, Not(HasSubstr("warning: 5 layers")));
  words.insert(words.end(), {"--stale-sites", "all"});
  EXPECT_THAT(run_command(words).err, HasSubstr("warning: 5 layers with --staleness 1"));
  EXPECT_THAT(run_command(train_arguments(data_, 1)).err, Not(HasSubstr("warning")));
}

TEST_F(TrainWarnings, NameRowsThatCodesMakeLonger) {
  const auto at = [&](const char* bits, const char* columns) {
    return run_command({"train", "--data", data_, "--parts", "2", "--epochs", "1", "--layers", "2",
                        "--model", "jknet", "--activation", "gelu", "--hidden", columns, "--bits",
                        bits});
  };
  const auto coded = at("1", "2");
  EXPECT_THAT(coded.err, HasSubstr("take 10 bytes an epoch, with what decodes them, and 8 with 16 "
                                   "bits: --bits 16 sends less\n"));
  EXPECT_THAT(at("4", "1").out, HasSubstr("1.2x more than with rows in fp32"));
  EXPECT_THAT(at("16", "2").err, Not(HasSubstr("warning")));
  EXPECT_THAT(at("1", "16").err, Not(HasSubstr("warning")));
}

}  // namespace
}  // namespace heliograph
