#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli/files.hpp"
#include "cli/foreign_flags.hpp"
#include "cli/process.hpp"
#include "cli/sample.hpp"
#include "comm/nccl/transport.hpp"
#include "core/kernels.hpp"
#include "support/files.hpp"
#include "train/options/fields.hpp"
#include "train/options/json.hpp"

namespace heliograph {
namespace {

using test::run_command;
using test::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

/// Expects the command to end with `code` and one line of error that contains `part`.
void expect_refusal(const Words& words, int code, const std::string& part) {
  const auto outcome = run_command(words);
  std::string joined;
  for (const auto& word : words) joined.append(word).push_back(' ');
  EXPECT_EQ(outcome.code, code) << joined << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(part)) << joined;
  const std::size_t at = outcome.err.rfind("heliograph: error: ");
  ASSERT_NE(at, std::string::npos) << joined << outcome.err;
  EXPECT_EQ(outcome.err.find('\n', at), outcome.err.size() - 1) << outcome.err;
  EXPECT_EQ(outcome.out, "") << joined;
}

TEST(Help, EveryCommandHasOne) {
  for (const char* name : {"train", "eval", "export", "import", "generate", "partition", "info"}) {
    const auto outcome = run_command({name, "--help"});
    EXPECT_EQ(outcome.code, 0) << name;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("Usage: heliograph ") + name));
  }
  for (const char* name : {"plan", "report"}) {
    const auto outcome = run_command({name, "--help"});
    EXPECT_EQ(outcome.code, 0) << name;
    EXPECT_THAT(outcome.out, HasSubstr("Not built yet"));
  }
}

TEST(Help, OffersOnlyWhatIsBuilt) {
  const auto help = run_command({"train", "--help"}).out;
  EXPECT_EQ(help.find("--device cpu|cuda") != std::string::npos, cuda_built());
  EXPECT_EQ(help.find("|nccl") != std::string::npos, nccl_built());
  for (const char* part :
       {"--model gcn|sage|", "Examples:", "[200]", "seconds. [120.0]", "Exchange:"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, WordsMeanFlags) {
  for (const std::string word : {"help", "version"}) {
    const auto said = run_command({word}), meant = run_command({"--" + word});
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.out, meant.out);
  }
  EXPECT_EQ(run_command({"help", "eval"}).out, run_command({"eval", "--help"}).out);
}

TEST(Help, TheCommandAloneExplainsItselfAsAnError) {
  const auto outcome = run_command({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Usage: heliograph COMMAND"));
  EXPECT_EQ(run_command({"--help"}).code, 0);
  EXPECT_EQ(run_command({"--version"}).code, 0);
}

TEST(Usage, UnknownNamesComeWithTheNearest) {
  expect_refusal({"trian"}, 2, "\"train\"");
  expect_refusal({"train", "--epocs", "3"}, 2, "--epochs");
  expect_refusal({"train", "--hiden=3"}, 2, "--hidden");
  expect_refusal({"train", "-epochs", "1"}, 2, "unknown flag -epochs; did you mean --epochs?");
  expect_refusal({"eval", "---checkpoint", "x"}, 2, "did you mean --checkpoint?");
  expect_refusal({"train", "--metric", "micro-f1"}, 2, "the nearest is f1");
  expect_refusal({"import", "--ouut", "x"}, 2, "--out");
  expect_refusal({"generate", "--homophilly", "1"}, 2, "--homophily");
  expect_refusal({"generate", "--preset", "redit", "--out", "x"}, 2, "reddit");
  expect_refusal({"--data", "x", "train"}, 2, "unknown flag --data");
  expect_refusal({"train", "cora.npz"}, 2, "heliograph train --data PATH");
  expect_refusal({"eval", "runs/cora"}, 2, "heliograph eval --checkpoint PATH");
}

TEST(Usage, WordsThatAreFarFromEveryNameGetNoSuggestion) {
  for (const char* flag : {"--frobnicate", "--xy"}) {
    const auto outcome = run_command({"train", flag});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string("unknown flag ") + flag));
    EXPECT_THAT(outcome.err, Not(HasSubstr("did you mean")));
  }
  expect_refusal({"frobnicate"}, 2,
                 "there are train, eval, export, import, generate, partition and info");
  expect_refusal({"generate", "--preset", "imagenet", "--out", "x"}, 2,
                 "there are reddit, products, yelp and amazon");
}

TEST(Usage, FlagsOfOtherSystemsAreAnsweredWithOurs) {
  expect_refusal({"train", "--wd", "0.1"}, 2, "unknown flag --wd: use --weight-decay (");
  expect_refusal({"train", "--use_pp"}, 2, "--no-precompute turns it off");
  expect_refusal({"train", "--enable-pipeline"}, 2, "use --staleness 1");
  expect_refusal({"train", "--n-partitions=4"}, 2, "use --parts");
  expect_refusal({"train", "--sampling-rate", "0.1"}, 2, "sampling of boundary nodes is not built");
  expect_refusal({"train", "--feat-corr"}, 2, "smoothing of stale values is not built");
  expect_refusal({"train", "--no-eval"}, 2, "use --eval-every 0");
  expect_refusal({"train", "--dataset", "reddit"}, 2, "use --data");
  expect_refusal({"train", "--data-path", "d"}, 2, "unknown flag --data-path: use --data with a");
  expect_refusal({"train", "--num_bits", "1"}, 2, "unknown flag --num_bits: use --bits");
  expect_refusal({"train", "--early-stop"}, 2, "use --patience");
}

TEST(ForeignFlags, AreNoneOfOursAndAreAnsweredWithFlagsThatExist) {
  const auto flags_in = [](const std::string& text) {
    const std::regex flag("--([a-z][a-z-]+)");
    std::set<std::string> names;
    for (std::sregex_iterator found(text.begin(), text.end(), flag), end; found != end; ++found) {
      names.insert((*found)[1]);
    }
    return names;
  };
  std::set<std::string> ours = flags_in(run_command({"train", "--help"}).out);
  for (const auto& field : train_option_fields()) ours.insert(field.name);
  for (const cli::ForeignFlag& foreign : cli::kForeignFlags) {
    EXPECT_FALSE(ours.contains(foreign.name)) << foreign.name;
    for (const std::string& name : flags_in(foreign.answer)) {
      EXPECT_TRUE(name == "hostfile" || ours.contains(name)) << foreign.answer;
    }
  }
}

TEST(Switches, ShowTheNameThatChangesTheDefault) {
  const auto help = run_command({"train", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("  --pre-norm  "));
  EXPECT_THAT(help, HasSubstr("  --no-precompute  "));
  EXPECT_THAT(help, Not(HasSubstr("--no-pre-norm")));
  EXPECT_THAT(help, Not(HasSubstr("{false}")));
}

TEST(Switches, HaveAnOpposite) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 40);
  const std::string config = (folder / "c.json").string();
  test::write_text(config, R"({"residual": true, "input-linear": true, "no-precompute": true})");
  const auto options_of = [&](const Words& more) {
    Words words = test::train_arguments(
        data, 1, {"--config", config, "--out", folder / "run", "--overwrite"});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run_command(words).code, 0);
    return test::read_json(folder / "run" / "run.json").at("options");
  };
  const auto from_config = options_of({});
  EXPECT_EQ(from_config.at("residual"), "identity");
  EXPECT_EQ(from_config.at("input-linear"), true);
  EXPECT_EQ(from_config.at("precompute"), false);
  const auto undone = options_of({"--residual", "linear", "--model", "gcn", "--no-input-linear",
                                  "--precompute", "--no-transform-first"});
  EXPECT_EQ(undone.at("residual"), "linear");
  EXPECT_EQ(undone.at("input-linear"), false);
  EXPECT_EQ(options_of({"--residual", "none"}).at("residual"), "none");
  EXPECT_EQ(undone.at("precompute"), true);
  EXPECT_EQ(undone.at("transform-first"), false);
}

TEST(Usage, AFlagIsGivenOnce) {
  const auto refused = [](const Words& more, const char* part) {
    Words words{"train", "--data", "x"};
    words.insert(words.end(), more.begin(), more.end());
    expect_refusal(words, 2, part);
  };
  refused({"--parts", "2", "--parts", "2"}, "--parts is given 2 times: give it once");
  refused({"--config", "a.json", "--config=b.json"}, "--config is given 2 times");
  refused({"--residual", "none", "--residual"}, "--residual is given 2 times");
  refused({"--inductive", "--no-inductive"}, "--inductive (or --no-inductive) is given 2 times");
  expect_refusal({"eval", "--checkpoint", "a", "--checkpoint", "b"}, 2, "--checkpoint is given 2");
  expect_refusal({"generate", "--out", "a", "--out", "b"}, 2, "--out is given 2 times");
}

TEST(Usage, WordsInTheWrongPlaceAreAnswered) {
  expect_refusal({"--parts", "2"}, 2, "--parts stands before the command; the command comes first");
  expect_refusal({"train", "g"}, 2, "as in \"heliograph train --data PATH\"");
  expect_refusal({"generate", "g"}, 2, "as in \"heliograph generate --out DIR\"");
  const TemporaryDirectory folder;
  test::write_text(folder / "file", "");
  const std::string out = (folder / "file" / "run").string();
  expect_refusal({"train", "--data", test::save_ring(folder / "ring", 40), "--out", out}, 2,
                 "--out " + out + " lies in what is not a directory");
}

TEST(Usage, AFlagOfAnotherCommandNamesThatCommand) {
  expect_refusal({"partition", "--bits", "1"}, 2,
                 "unknown flag --bits: it is a flag of heliograph train (");
  expect_refusal({"info", "--data", "x"}, 2,
                 "it is a flag of heliograph train, eval, export, import or partition (");
}

TEST(Usage, ADefaultOfAnotherModelIsRefusedUnlessARunWroteIt) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 40), run = (folder / "run").string();
  expect_refusal(test::train_arguments(data, 1, {"--teleport", "0.1"}), 2,
                 "--teleport is for --model appnp, not sage");
  expect_refusal({"partition", "--data", data, "--hops", "10"}, 2, "--hops is for --model appnp");
  const std::string config = (folder / "c.json").string();
  test::write_text(config, R"({"step-gamma": 0.5})");
  expect_refusal(test::train_arguments(data, 1, {"--config", config}), 2, "--step-gamma needs");
  ASSERT_EQ(run_command(test::train_arguments(data, 1, {"--out", run})).code, 0);
  ASSERT_TRUE(test::read_json(folder / "run" / "run.json").at("options").contains("teleport"));
  EXPECT_EQ(run_command({"train", "--config", run, "--epochs", "2"}).code, 0);
}

TEST(Usage, MissingAndMeaninglessValuesAreNamed) {
  expect_refusal({"train"}, 2, "--data is required");
  expect_refusal({"train", "--epochs"}, 2, "--epochs needs a value");
  expect_refusal({"import", "--out", "x"}, 2, "--data is required");
  expect_refusal({"generate"}, 2, "--out is required");
  expect_refusal({"generate", "--scale", "2", "--out", "x"}, 2, "--preset");
  expect_refusal({"partition", "--parts", "2"}, 2, "--data is required");
  expect_refusal({"train", "--data", "x", "--parts", "0"}, 2, "--parts");
  expect_refusal({"partition", "--data", "x", "--parts", "0"}, 2, "--parts");
  expect_refusal({"train", "--data", "x", "--bits", "3"}, 2, "--bits");
  expect_refusal({"train", "--data", "x", "--bits-forward", "5"}, 2, "--bits-forward");
  for (const char* bits : {"2", "3"}) {
    expect_refusal({"train", "--data", "x", "--gradient-bits", bits}, 2,
                   "--gradient-bits must be 4, 8, 16 or 32, not");
  }
  expect_refusal({"train", "--data", "x", "--lr", "fast"}, 2, "--lr");
  expect_refusal({"train", "--data", "x", "--index-base", "2"}, 2, "--index-base");
  expect_refusal({"train", "--data", "x", "--summary", "no/such/s.json"}, 2, "--summary");
  const std::pair<const char*, std::vector<const char*>> texts[] = {
      {"train", {"data", "resume", "init-from", "out", "summary", "config", "partitioner"}},
      {"partition", {"out", "owners", "init-from"}},
      {"eval", {"checkpoint"}},
      {"import", {"out"}},
      {"generate", {"preset", "out"}},
  };
  for (const auto& [command, flags] : texts) {
    for (const std::string flag : flags) {
      expect_refusal({command, "--" + flag, ""}, 2, "--" + flag + " needs a value");
    }
  }
}

TEST(Usage, FlagsThatCannotActAreNamed) {
  const auto refused = [](Words words, const char* part) {
    words.insert(words.begin() + 1, {"--data", "x"});
    expect_refusal(words, 2, part);
  };
  for (const char* other : {"random", "contiguous", "file:owners"}) {
    refused({"train", "--partitioner", other, "--balance-train"}, "--balance-train needs");
    refused({"partition", "--partitioner", other, "--balance-train"}, "--balance-train needs");
  }
  refused({"train", "--step-size", "3"}, "--step-size needs --schedule step");
  refused({"train", "--step-size", "50"}, "--step-size needs --schedule step");
  refused({"train", "--schedule", "cosine", "--step-gamma", "0.3"}, "--step-gamma needs");
  refused({"train", "--overwrite"}, "--overwrite needs --out");
  refused({"partition", "--overwrite"}, "--overwrite needs --out or --owners");
  expect_refusal({"generate", "--out", "x", "--scale", "1"}, 2, "--scale needs --preset");
  expect_refusal({"generate", "--out", "x", "--rmat-b", "0.2"}, 2, "--rmat-b needs --model rmat");
  expect_refusal({"generate", "--out", "x", "--labels-per-node", "2"}, 2, "needs --multilabel");
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 40), run = (folder / "run").string();
  for (const char* command : {"train", "partition"}) {
    expect_refusal({command, "--data", data, "--keep-direction"}, 2,
                   "--keep-direction does not apply: " + data + " is a native graph");
    expect_refusal({command, "--data", data, "--index-base", "0"}, 2, "--index-base does not");
    expect_refusal({command, "--data", data, "--target", "year"}, 2,
                   "--target year does not apply");
  }
  const std::string shards = (folder / "shards").string();
  ASSERT_EQ(run_command({"partition", "--data", data, "--parts", "2", "--out", shards}).code, 0);
  expect_refusal({"partition", "--data", shards}, 2, "holds shards, which are cut already");
  expect_refusal({"import", "--data", shards, "--out", run}, 2, "holds shards, which are cut");
  expect_refusal({"partition", "--data", data, "--parts", "2", "--init-from", run}, 2,
                 "--init-from needs --out and --normalize standard");
  ASSERT_EQ(run_command(test::train_arguments(data, 1, {"--balance-train", "--out", run})).code, 0);
  expect_refusal({"eval", "--checkpoint", run, "--overwrite"}, 2, "--overwrite needs --out");
  EXPECT_EQ(run_command({"eval", "--checkpoint", run, "--partitioner", "random"}).code, 0);
}

TEST(Usage, WhatIsNotBuiltSaysSo) {
  for (const char* name : {"plan", "report"}) {
    expect_refusal({name}, 2, "not built yet");
    expect_refusal({name, "--data", "x"}, 2, "not built yet");
  }
  expect_refusal({"train", "--data", "x", "--model", "gatv2", "--bits", "4"}, 2, "at least 8 bits");
  expect_refusal({"train", "--data", "x", "--device", "gpu"}, 2, "the nearest is cuda");
  expect_refusal({"train", "--data", "x", "--transport", "nccl"}, 2, "--transport nccl");
  const bool built = run_command({"info"}).out.find("cuda built") != std::string::npos;
  expect_refusal({"train", "--data", "x", "--device", "cuda"}, 2,
                 built ? "--device cuda: there is no CUDA device that can be used: "
                       : "--device cuda: this build has no CUDA; ");
}

TEST(Config, IsReadAndOverridden) {
  const TemporaryDirectory folder;
  const std::string config = (folder / "c.json").string();
  const std::string data = test::save_ring(folder / "ring", 40);
  const std::string out = (folder / "run").string();
  test::write_text(config, R"({"epochs": 2, "bits": 1, "weight_decay": 0.5, "hidden": 8,
                               "parts": 2, "layers": 2, "quiet": true})");
  const auto outcome = run_command({"train", "--config", config, "--data", data, "--epochs", "3",
                                    "--bits-backward", "8", "--out", out});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto options = test::read_json(folder / "run" / "run.json").at("options");
  EXPECT_EQ(options.at("epochs"), 3);
  EXPECT_EQ(options.at("bits-forward"), 1);
  EXPECT_EQ(options.at("bits-backward"), 8);
  EXPECT_EQ(options.at("weight-decay"), 0.5);
  EXPECT_EQ(test::read_lines(folder / "run" / "metrics.jsonl").size(), 3U);
}

TEST(Config, OptionsForWhatAFlagReplacesAreNotTaken) {
  const TemporaryDirectory folder;
  const std::string config = (folder / "c.json").string();
  const std::string data = test::save_ring(folder / "ring", 40);
  test::write_text(config, R"({"epochs": 2, "hidden": 8, "model": "gat", "heads": 2,
                               "schedule": "step", "step-gamma": 0.25, "no-concat-heads": true})");
  const std::string run = (folder / "gat").string();
  ASSERT_EQ(run_command({"train", "--config", config, "--data", data, "--out", run}).code, 0);
  for (const std::string& from : {config, run + "/run.json"}) {
    const std::vector<std::string> words{
        "train",      "--config", from,    "--data",        data,         "--model", "sage",
        "--schedule", "cosine",   "--out", folder / "sage", "--overwrite"};
    const auto outcome = run_command(words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto options = test::read_json(folder / "sage" / "run.json").at("options");
    EXPECT_EQ(options.at("model"), "sage");
    EXPECT_EQ(options.at("heads"), 4);
    EXPECT_EQ(options.at("step-gamma"), 0.5);
    EXPECT_EQ(options.at("hidden"), 8);
    auto more = words;
    more.insert(more.end(), {"--heads", "2"});
    expect_refusal(more, 2, "--heads is for --model gat");
  }
}

TEST(Config, OptionsThatNeverFittedAreRefused) {
  const TemporaryDirectory folder;
  const std::string config = (folder / "c.json").string();
  const std::string data = test::save_ring(folder / "ring", 40);
  test::write_text(config, R"({"epochs": 2, "hidden": 8, "model": "gcn", "heads": 8})");
  for (const auto& [flag, value] : {std::pair{"--schedule", "cosine"}, {"--model", "sage"}}) {
    expect_refusal({"train", "--config", config, "--data", data, flag, value}, 2,
                   "--heads is for --model gat");
  }
}

TEST(Config, BadOnesAreRefusedByFile) {
  const TemporaryDirectory folder;
  const std::string config = (folder / "c.json").string();
  const auto refuse = [&](const std::string& text, const std::string& part) {
    test::write_text(config, text);
    expect_refusal({"train", "--config", config}, 2, part);
    expect_refusal({"train", "--config", config}, 2, config);
  };
  refuse(R"({"epocs": 3})", "\"epochs\"");
  refuse(R"({"config": "x"})", "unknown key");
  refuse(R"({"n_partitions": 2})", "unknown key \"n_partitions\": use --parts");
  refuse(R"({"epochs": "three"})", "--epochs");
  refuse(R"({"bits": 3})", "--bits");
  refuse(R"({"epochs": )", "not JSON: parse error at line 1");
  refuse(R"({"bits": 1, "epochs": 3, "bits": 8})", "gives \"bits\" twice: keep one");
  refuse(R"({"no-precompute": true, "precompute": true})", "gives both \"precompute\" and");
  refuse(R"({"precompute": true, "no_precompute": true})", "gives both \"precompute\" and");
  refuse("[]", "object");
  refuse(R"({"format": "heliograph-run", "options": {}, "working_directory": 5})",
         "is 5, not a path");
  expect_refusal({"train", "--config", (folder / "missing").string()}, 2, "cannot be read");
  fs::create_directories(folder / "folder" / "run.json");
  expect_refusal({"train", "--config", (folder / "folder").string()}, 2, "cannot be read");
  expect_refusal({"train", "--resume", (folder / "folder").string()}, 3, "folder");
}

TEST(BadInput, IsNamed) {
  const TemporaryDirectory folder;
  const std::string missing = (folder / "missing").string();
  expect_refusal({"train", "--data", missing, "--quiet"}, 3, missing);
  expect_refusal({"import", "--data", missing, "--out", (folder / "o").string()}, 3, missing);
  const std::string broken = (folder / "broken.npz").string();
  test::write_text(broken, "not an archive");
  expect_refusal({"partition", "--data", broken, "--quiet"}, 3, "broken.npz");
  test::write_text(broken, "");
  expect_refusal({"partition", "--data", broken, "--quiet"}, 3, "broken.npz: is empty");
  const std::string data = test::save_ring(folder / "ring", 40);
  const std::string owners = (folder / "owners").string();
  test::write_text(owners, "0\n1\n");
  expect_refusal(
      {"train", "--data", data, "--parts", "2", "--partitioner", "file:" + owners, "--quiet"}, 3,
      "owners");
  expect_refusal({"train", "--data", data, "--split", "9", "--quiet"}, 2, "split");
  expect_refusal({"partition", "--data", data, "--parts", "41", "--quiet"}, 2, "41");
}

TEST(OutOfResources, AFullDiskIsNamed) {
  const TemporaryDirectory folder;
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const std::string data = test::save_ring(folder / "ring", 40);
  const std::string out = (folder / "run").string();
  expect_refusal(
      test::train_arguments(data, 2, {"--summary", "/dev/full", "--quiet", "--out", out}), 4,
      "/dev/full");
  const auto printed = run_command(test::train_arguments(data, 2, {"--summary", "/dev/full"}));
  EXPECT_EQ(printed.code, 4);
  EXPECT_THAT(printed.out, HasSubstr("test auc"));
  // Only the summary could not be written; the run is kept.
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "predictions.npy"));
}

TEST(OutOfResources, OutputThatCannotBeWrittenIsAnErrorUnlessNobodyReadsIt) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const int status = std::system(HELIOGRAPH_COMMAND " info > /dev/full 2> /dev/null");
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_EQ(run_command({"info"}, {}, STDOUT_FILENO).code, 0);
}

TEST(Numeric, DivergenceEndsWithItsCode) {
  const TemporaryDirectory folder;
  const std::string data = test::save_ring(folder / "ring", 40);
  const std::string out = (folder / "run").string();
  expect_refusal(
      test::train_arguments(data, 50, {"--lr", "1e38", "--norm", "none", "--quiet", "--out", out}),
      6, "poch");
  const auto manifest = test::read_json(folder / "run" / "run.json");
  EXPECT_EQ(manifest.at("status"), "failed");
  EXPECT_EQ(manifest.at("error").at("exit_code"), 6);
}

TEST(Info, NamesVersionAndWhatIsBuilt) {
  const auto outcome = run_command({"info"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part :
       {"version", "compiler", "cores", "memory", "simd", "threads built; mpi ", "tcp built"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_THAT(outcome.out, HasSubstr(cuda_built() ? "cuda built" : "cuda not built"));
  EXPECT_THAT(outcome.out, HasSubstr(nccl_built() ? "nccl built" : "nccl not built"));
}

}  // namespace
}  // namespace heliograph
