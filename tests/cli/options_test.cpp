#include "heliograph/options.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "graph/split.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "train/options/fields.hpp"
#include "train/options/given.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"

namespace heliograph {
namespace {

using nlohmann::json;

/// The message of the Error(usage) that `body` throws. Fails the test if it throws none.
std::string refusal(const std::function<void()>& body) {
  return test::expect_error(ErrorCode::usage, "", body);
}

const OptionField<TrainOptions>& field(const std::string& name) {
  for (const auto& candidate : train_option_fields()) {
    if (candidate.name == name) return candidate;
  }
  throw std::logic_error("no field " + name);
}

TrainOptions with(const std::string& name, const std::string& text) {
  TrainOptions options;
  field(name).set(options, text);
  return options;
}

TEST(TrainOptionFields, DefaultsAreValid) { EXPECT_NO_THROW(validate(TrainOptions{})); }

TEST(TrainOptionFields, NamesAreUniqueAndExplained) {
  std::set<std::string> names;
  for (const auto& entry : train_option_fields()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.help.empty()) << entry.name;
    EXPECT_FALSE(entry.group.empty()) << entry.name;
    EXPECT_EQ(entry.placeholder.empty(), entry.kind == FieldKind::toggle) << entry.name;
    EXPECT_EQ(entry.name.find_first_of("_ "), std::string::npos) << entry.name;
  }
}

TEST(OptionsJson, EveryOptionSurvivesTheWayThroughJson) {
  const json changed = json::parse(R"({
    "split": "random:50/25/12.5", "split-seed": 7, "stratified": true, "normalize": "row",
    "inductive": true, "model": "gcn", "layers": 5, "hidden": 33, "dropout": 0.25,
    "input-dropout": 0.125, "norm": "batch", "activation": "gelu", "residual": "linear",
    "pre-norm": true, "input-linear": true, "output-linear": true, "feed-forward": 2, "jk": "max",
    "hops": 3, "teleport": 0.2, "eps-learned": true, "theta": 0.75, "alpha": 0.3,
    "heads": 3, "output-heads": 2, "concat-heads": false, "attention-dropout": 0.25,
    "negative-slope": 0.5,
    "precompute": false, "transform-first": false,
    "aggregate-storage": "bf16", "epochs": 17, "optimizer": "adamw", "lr": 0.003, "lr-warmup": 6,
    "label-smoothing": 0.125, "class-weights": "balanced",
    "weight-decay": 0.0005, "clip-norm": 1.5, "schedule": "step", "step-size": 9,
    "step-gamma": 0.1, "patience": 4, "seed": 18446744073709551615, "reproducible": true,
    "tf32": true, "init-from": "runs/a", "save-logits": true, "save-embeddings": true,
    "metric": "ap", "eval-every": 3, "verify": 2, "guard": true, "eval-chunk-mib": 8, "memory-limit-mib": 9, "parts": 6,
    "partitioner": "file:a b/c.part.6", "objective": "volume", "partition-seed": 11,
    "balance-train": true, "node-order": "random",
    "exchange": "cover", "kept-columns": true, "bits": "auto:1.5", "bits-forward": 2, "bits-backward": 16, "bits-policy": "degree-trend", "gradient-bits": 8, "staleness": 3, "stale-sites": "layers.1.backward", "sync-every": 10, "warmup-epochs": 5,
    "transport": "mpi", "device": "cuda", "cuda-graphs": "off", "threads-per-rank": 2, "pin": "on", "link-gbps": 0.125,
    "link-latency-us": 50.5, "row-blocks": 3, "timeout": 7.5, "checkpoint-every": 12, "on-save-failure": "stop",
    "silence-loading": 11.5, "silence-training": 2.5, "silence-saving": 33.0,
    "nccl-register": true, "cuda-aware-mpi": "on"})");
  TrainOptions options;
  options_from_json(changed, "here", options);
  EXPECT_EQ(json(options_to_json(options)), changed);

  // Each value differs from the default, and no field is missing from the list above.
  const json defaults = options_to_json(TrainOptions{});
  for (const auto& entry : train_option_fields()) {
    EXPECT_EQ(changed.contains(entry.name), entry.get != nullptr) << entry.name;
  }
  for (const auto& item : defaults.items()) {
    EXPECT_NE(item.value(), changed.value(item.key(), json())) << item.key();
  }
  EXPECT_FLOAT_EQ(options.optimizer.lr, 0.003F);
  EXPECT_FALSE(options.model.precompute);
  EXPECT_FALSE(options.model.transform_first);
  EXPECT_EQ(options.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(options.eval_chunk_bytes, 8 << 20);
  EXPECT_EQ(options.memory_limit_bytes, 9 << 20);
  EXPECT_EQ(options.partition.file, "a b/c.part.6");
  EXPECT_DOUBLE_EQ(std::get<RandomSplit>(options.split).test, 12.5);
}

TEST(OptionsJson, FloatsAreWrittenAsTheShortestDecimal) {
  EXPECT_EQ(options_to_json(TrainOptions{}).at("lr").dump(), "0.01");
}

TEST(OptionsJson, AcceptsUnderscores) {
  TrainOptions options;
  options_from_json(json{{"weight_decay", 0.5}, {"bits_forward", 4}}, "here", options);
  EXPECT_FLOAT_EQ(options.optimizer.weight_decay, 0.5F);
  EXPECT_EQ(options.exchange.bits_forward, Bits::four);
}

TEST(OptionsJson, BitsSetBothWaysAndAreOverridden) {
  TrainOptions options;
  options_from_json(json{{"bits-backward", 8}, {"bits", 1}}, "here", options);
  EXPECT_EQ(options.exchange.bits_forward, Bits::one);
  EXPECT_EQ(options.exchange.bits_backward, Bits::eight);
}

TEST(OptionsJson, ChosenBitsBeginWithOne) {
  TrainOptions options = with("bits", "auto:20MB");
  EXPECT_EQ(options.exchange.auto_bits, "auto:20MB");
  EXPECT_EQ(options.exchange.bits_forward, Bits::one);
  TrainOptions read;
  options_from_json(json(options_to_json(options)), "here", read);
  EXPECT_EQ(read.exchange.auto_bits, "auto:20MB");
  field("bits").set(read, "8");
  EXPECT_TRUE(read.exchange.auto_bits.empty());
  EXPECT_EQ(read.exchange.bits_backward, Bits::eight);
}

TEST(OptionsJson, UnknownKeysAreRefusedWithTheNearest) {
  TrainOptions options;
  const std::string sentence = refusal([&] {
    options_from_json(json{{"epocs", 3}}, "c.json", options);
  });
  EXPECT_NE(sentence.find("c.json"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\"epocs\""), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\"epochs\""), std::string::npos) << sentence;
}

TEST(OptionsJson, WrongTypesAndDoubleKeysAreRefused) {
  TrainOptions options;
  for (const char* text :
       {R"({"epochs": "3"})", R"({"epochs": 3.5})", R"({"epochs": true})", R"({"lr": "fast"})",
        R"({"inductive": 1})", R"({"model": ["gcn"]})", R"({"lr": null})", R"([1, 2])",
        R"({"weight_decay": 0.1, "weight-decay": 0.2})"}) {
    EXPECT_FALSE(refusal([&] { options_from_json(json::parse(text), "here", options); }).empty())
        << text;
  }
}

TEST(OptionsJson, WrongTypesAreNamed) {
  const auto refused = [](const char* text, const char* sentence) {
    TrainOptions options;
    EXPECT_EQ(refusal([&] { options_from_json(json::parse(text), "here", options); }), sentence);
  };
  refused(R"({"epochs": "3"})", "epochs must be a whole number without quotes, not \"3\"");
  refused(R"({"epochs": 3.5})", "epochs must be a whole number, not \"3.5\"");
  refused(R"({"model": ""})", "model needs a text that is not empty");
}

TEST(OptionText, SplitAndPartitionerAreReadBack) {
  EXPECT_EQ(std::get<GivenSplit>(with("split", "3").split).index, 3);
  for (const char* text : {"3", "random:50/30/20", "random:0.5/0.3/0.2", "per-class:20/500/1000"}) {
    EXPECT_EQ(split_text(with("split", text).split), text);
  }
  // A config file gives the seed, a flag another kind of split.
  TrainOptions options;
  options_from_json(json{{"split", "random:60/20/20"}, {"split-seed", 5}}, "here", options);
  field("split").set(options, "per-class:1/2/3");
  EXPECT_EQ(std::get<PerClassSplit>(options.split).seed, 5U);
  EXPECT_EQ(with("partitioner", "random").partition.partitioner, Partitioner::random);
  EXPECT_EQ(with("partitioner", "file:x.part.4").partition.file, "x.part.4");
}

TEST(OptionText, BadTextIsRefusedByFlag) {
  const std::pair<const char*, const char*> cases[] = {
      {"epochs", "12x"},
      {"epochs", ""},
      {"epochs", "1.5"},
      {"epochs", "99999999999"},
      {"lr", "fast"},
      {"lr", "nan"},
      {"lr", "inf"},
      {"seed", "-1"},
      {"bits", "3"},
      {"bits", "0"},
      {"bits", "auto:"},
      {"bits", "auto:0.9"},
      {"bits", "auto:4.1"},
      {"bits", "auto:-1MB"},
      {"bits", "auto:20mb"},
      {"bits", "auto:1e300GB"},
      {"bits", "auto:nan"},
      {"bits", "automatic"},
      {"model", "gcm"},
      {"optimizer", "sgd"},
      {"class-weights", "1,2"},
      {"split", "random:60/20"},
      {"split", "random:a/b/c"},
      {"split", "first"},
      {"split", "per-class:1/2"},
      {"split", "per-class:1.5/2/3"},
      {"split", "share:1/2/3"},
      {"split-seed", "3"},
      {"split-seed", "0"},
      {"stratified", "true"},
      {"split", ""},
      {"partitioner", "file:"},
      {"partitioner", "metiss"},
      {"reproducible", "maybe"},
      {"aggregate-storage", "fp16"},
      {"cuda-graphs", "yes"},
      {"eval-chunk-mib", "0"},
      {"memory-limit-mib", "-1"},
  };
  for (const auto& [name, text] : cases) {
    const std::string sentence = refusal([&, n = name, t = text] { with(n, t); });
    EXPECT_EQ(sentence.find(name), 0U) << sentence;
    EXPECT_EQ(sentence.find("--"), std::string::npos) << sentence;
  }
}

TEST(OptionText, ChoicesNameTheNearest) {
  EXPECT_NE(refusal([] { with("metric", "accuracyy"); }).find("nearest is accuracy"),
            std::string::npos);
  for (const char* begin : {"acc", "ACC"}) {
    EXPECT_NE(refusal([&] { with("metric", begin); }).find("nearest is accuracy"),
              std::string::npos);
  }
  EXPECT_NE(refusal([] { with("model", "graphsage"); }).find("nearest is sage"), std::string::npos);
  EXPECT_NE(refusal([] { with("device", "gpu"); }).find("nearest is cuda"), std::string::npos);
  EXPECT_NE(refusal([] { with("norm", "rms"); }).find("auto, layer, batch or none, not"),
            std::string::npos);
}

TEST(Validate, RefusesEachValueByName) {
  using Change = std::function<void(TrainOptions&)>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<const char*, Change> cases[] = {
      {"parts", [](auto& o) { o.partition.parts = 0; }},
      {"parts", [](auto& o) { o.partition.parts = -4; }},
      {"partitioner", [](auto& o) { o.partition.partitioner = Partitioner::file; }},
      {"bits-forward", [](auto& o) { o.exchange.bits_forward = Bits{3}; }},
      {"bits-backward", [](auto& o) { o.exchange.bits_backward = Bits{64}; }},
      {"bits automatic", [](auto& o) { o.exchange.auto_bits = "automatic"; }},
      {"bits auto, which may come from a config, gives rows 4 bits at most",
       [](auto& o) { o.exchange.auto_bits = "auto", o.exchange.bits_forward = Bits::eight; }},
      {"bits auto is not built for models with attention",
       [](auto& o) {
         o.exchange.auto_bits = "auto", o.model.kind = ModelKind::gat;
         o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       }},
      {"bits-policy needs bits 1, 2, 4 or 8",
       [](auto& o) { o.exchange.bits_policy = BitsPolicy::trend; }},
      {"bits-policy degree is not built for models with attention",
       [](auto& o) {
         o.exchange.bits_policy = BitsPolicy::degree, o.model.kind = ModelKind::gat;
         o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       }},
      {"bits-policy degree needs exchange boundary",
       [](auto& o) {
         o.exchange.bits_policy = BitsPolicy::degree_trend;
         o.exchange.rows = ExchangedRows::cover;
         o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       }},
      {"guard cannot be combined with bits-policy",
       [](auto& o) {
         o.exchange.bits_policy = BitsPolicy::trend, o.guard = true;
         o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
       }},
      {"gradient-bits", [](auto& o) { o.exchange.gradient_bits = Bits::two; }},
      {"gradient-bits cannot be combined with reproducible",
       [](auto& o) { o.exchange.gradient_bits = Bits::eight, o.reproducible = true; }},
      {"bits-forward 4 is not for model gatv2, which makes its scores of the rows that travel: it "
       "takes at least 8 bits",
       [](auto& o) { o.model.kind = ModelKind::gatv2, o.exchange.bits_forward = Bits::four; }},
      {"bits-backward 1 is not for model gatv2",
       [](auto& o) { o.model.kind = ModelKind::gatv2, o.exchange.bits_backward = Bits::one; }},
      {"staleness", [](auto& o) { o.exchange.staleness = -1; }},
      {"sync-every", [](auto& o) { o.exchange.sync_every = -1; }},
      {"warmup-epochs", [](auto& o) { o.exchange.warmup_epochs = -1; }},
      {"layers", [](auto& o) { o.model.layers = 0; }},
      {"hidden", [](auto& o) { o.model.hidden = 0; }},
      {"hidden", [](auto& o) { o.model.hidden = (1 << 20) + 1; }},
      {"layers", [](auto& o) { o.model.layers = 1025; }},
      {"memory-limit-mib", [](auto& o) { o.memory_limit_bytes = -1; }},
      {"dropout", [](auto& o) { o.model.dropout = 1.0F; }},
      {"dropout", [nan](auto& o) { o.model.dropout = nan; }},
      {"input-dropout", [](auto& o) { o.model.input_dropout = -0.1F; }},
      {"feed-forward", [](auto& o) { o.model.feed_forward = -1; }},
      {"feed-forward 3 makes blocks of 1572864 columns with hidden 524288; lower either",
       [](auto& o) { o.model.hidden = 1 << 19, o.model.feed_forward = 3; }},
      {"feed-forward is for model gcn, sage, jknet, gat, gat-sep or gatv2, not gin",
       [](auto& o) { o.model.kind = ModelKind::gin, o.model.feed_forward = 2; }},
      {"hops is for model appnp or dagnn, not sage", [](auto& o) { o.model.hops = 2; }},
      {"hops", [](auto& o) { o.model.kind = ModelKind::appnp, o.model.hops = 0; }},
      {"teleport", [](auto& o) { o.model.kind = ModelKind::appnp, o.model.teleport = 1; }},
      {"theta", [](auto& o) { o.model.kind = ModelKind::gcnii, o.model.theta = 2; }},
      {"alpha", [nan](auto& o) { o.model.kind = ModelKind::gcnii, o.model.alpha = nan; }},
      {"heads", [](auto& o) { o.model.kind = ModelKind::gat, o.model.heads = 0; }},
      {"hidden 30 is not a multiple of heads 4",
       [](auto& o) { o.model.kind = ModelKind::gat, o.model.hidden = 30; }},
      {"output-heads", [](auto& o) { o.model.kind = ModelKind::gat, o.model.output_heads = -1; }},
      {"output-heads is for model gat or gatv2, not gat-sep",
       [](auto& o) { o.model.kind = ModelKind::gat_sep, o.model.output_heads = 2; }},
      {"attention-dropout",
       [](auto& o) { o.model.kind = ModelKind::gat, o.model.attention_dropout = 1; }},
      {"negative-slope",
       [nan](auto& o) { o.model.kind = ModelKind::gat, o.model.negative_slope = nan; }},
      {"concat-heads is for model gat, gat-sep or gatv2, not gcn",
       [](auto& o) { o.model.kind = ModelKind::gcn, o.model.concat_heads = false; }},
      {"aggregate-storage bf16 is not for model gat",
       [](auto& o) {
         o.model.kind = ModelKind::gat, o.model.aggregate_storage = RowStorage::bf16;
       }},
      {"eps-learned is for model gin", [](auto& o) { o.model.eps_learned = true; }},
      {"residual linear", [](auto& o) { o.model.residual = Residual::linear; }},
      {"jk", [](auto& o) { o.model.jk = JumpingKnowledge::max, o.model.layers = 1; }},
      {"jk", [](auto& o) { o.model.kind = ModelKind::jknet, o.model.layers = 1; }},
      {"pre-norm needs residual", [](auto& o) { o.model.pre_norm = true; }},
      {"pre-norm needs norm",
       [](auto& o) { o.model.pre_norm = true, o.model.norm = NormLayer::none; }},
      {"output-linear is for",
       [](auto& o) { o.model.kind = ModelKind::appnp, o.model.output_linear = true; }},
      {"lr", [](auto& o) { o.optimizer.lr = 0; }},
      {"lr", [nan](auto& o) { o.optimizer.lr = nan; }},
      {"weight-decay", [](auto& o) { o.optimizer.weight_decay = -1; }},
      {"clip-norm", [nan](auto& o) { o.optimizer.clip_norm = nan; }},
      {"lr-warmup", [](auto& o) { o.optimizer.lr_warmup = -1; }},
      {"label-smoothing", [](auto& o) { o.loss.label_smoothing = 1; }},
      {"label-smoothing", [nan](auto& o) { o.loss.label_smoothing = nan; }},
      {"step-size", [](auto& o) { o.optimizer.step_size = 0; }},
      {"step-gamma", [](auto& o) { o.optimizer.step_gamma = 1.5F; }},
      {"transport mpi",
       [](auto& o) { o.transport.kind = TransportKind::mpi, o.transport.link_gbps = 1; }},
      {"of transport tcp",
       [](auto& o) { o.transport.kind = TransportKind::tcp, o.transport.link_gbps = 1; }},
      {"transport nccl", [](auto& o) { o.transport.kind = TransportKind::nccl; }},
      {"cuda-aware-mpi on", [](auto& o) { o.transport.cuda_aware_mpi = CudaAwareMpi::on; }},
      {"nccl-register", [](auto& o) { o.transport.nccl_register = true; }},
      {"device cuda", [](auto& o) { o.transport.device = DeviceKind::cuda; }},
      {"cuda-graphs on", [](auto& o) { o.transport.cuda_graphs = CudaGraphs::on; }},
      {"threads-per-rank", [](auto& o) { o.transport.threads_per_rank = -1; }},
      {"link-gbps", [](auto& o) { o.transport.link_gbps = -1; }},
      {"link-latency-us", [](auto& o) { o.transport.link_latency_us = -1; }},
      {"verify", [](auto& o) { o.verify_every = -1; }},
      {"timeout", [](auto& o) { o.transport.timeout_seconds = 0; }},
      {"silence-loading", [](auto& o) { o.transport.silence_loading = 0; }},
      {"silence-training", [nan](auto& o) { o.transport.silence_training = nan; }},
      {"silence-saving", [](auto& o) { o.transport.silence_saving = -1; }},
      {"aggregate-storage bf16",
       [](auto& o) { o.reproducible = true, o.model.aggregate_storage = RowStorage::bf16; }},
      {"tf32 needs device cuda", [](auto& o) { o.tf32 = true; }},
      {"needs a directory to save to", [](auto& o) { o.checkpoint.every = 1; }},
      {"epochs", [](auto& o) { o.epochs = 0; }},
      {"eval-every", [](auto& o) { o.eval_every = -1; }},
      {"eval-every", [](auto& o) { o.eval_every = 0, o.patience = 1; }},
      {"patience", [](auto& o) { o.patience = -1; }},
      {"eval-chunk-mib", [](auto& o) { o.eval_chunk_bytes = 0; }},
      {"split", [](auto& o) { o.split = GivenSplit{-1}; }},
      {"split", [](auto& o) { o.split = RandomSplit{90, 20, 20}; }},
      {"split", [](auto& o) { o.split = RandomSplit{0, 20, 20}; }},
      {"split", [](auto& o) { o.split = RandomSplit{60, 20, -1}; }},
      {"split random:0.6/0.2/0.1", [](auto& o) { o.split = RandomSplit{0.6, 0.2, 0.1}; }},
      {"fractions that sum to 1", [](auto& o) { o.split = RandomSplit{0.6, 0.3, 0.3}; }},
      {"split per-class:0/2/3", [](auto& o) { o.split = PerClassSplit{0, 2, 3}; }},
      {"split per-class:1/2/-3", [](auto& o) { o.split = PerClassSplit{1, 2, -3}; }},
  };
  for (const auto& [flag, change] : cases) {
    TrainOptions options;
    change(options);
    const std::string sentence = refusal([&] { validate(options); });
    EXPECT_NE(sentence.find(flag), std::string::npos) << flag << ": " << sentence;
  }
}

TEST(Validate, RefusesValuesThatAnEnumerationDoesNotHave) {
  TrainOptions o;
  o.model.norm = static_cast<NormLayer>(77);
  test::expect_error(ErrorCode::usage, "an option holds 77, which is none of auto|layer|batch|none",
                     [&] { validate(o); });
  o = {};
  o.partition.partitioner = static_cast<Partitioner>(77);
  test::expect_error(ErrorCode::usage, "an option holds 77", [&] { validate(o); });
}

TEST(Validate, RefusesDefaultsThatAreGivenWhereTheyHaveNoMeaning) {
  const auto refused = [](const TrainOptions& options, const std::string& name,
                          const std::string& part) {
    const std::string sentence =
        refusal([&] { validate(options, [&](const std::string& n) { return n == name; }); });
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  TrainOptions options;
  refused(options, "hops", "hops is for model appnp or dagnn, not sage");
  refused(options, "teleport", "teleport is for model appnp, not sage");
  refused(options, "theta", "theta is for model gcnii, not sage");
  refused(options, "alpha", "alpha is for model gcnii, not sage");
  options.model.kind = ModelKind::appnp;
  refused(options, "alpha", "not appnp, which has --teleport");
  options.model.kind = ModelKind::sage;
  refused(options, "step-size", "step-size needs schedule step");
  refused(options, "step-gamma", "step-gamma needs schedule step");
  options.model.kind = ModelKind::gat;
  options.model.layers = 1;
  options.model.heads = 3;  // No layer has --hidden columns.
  EXPECT_NO_THROW(validate(options));
  options = TrainOptions();
  options.model.kind = ModelKind::appnp;
  options.optimizer.schedule = Schedule::step;
  EXPECT_NO_THROW(validate(options, [](const std::string& name) {
    return name == "hops" || name == "teleport" || name.starts_with("step-");
  }));
}

}  // namespace
}  // namespace heliograph
