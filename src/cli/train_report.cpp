#include "cli/train_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/text.hpp"
#include "heliograph/version.hpp"
#include "train/launch.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"
#include "train/processes.hpp"
#include "train/run/machine.hpp"
#include "train/run/summary.hpp"
#include "train/run/verification_summary.hpp"

namespace heliograph::cli {
namespace {

std::string bits_text(const ExchangeOptions& exchange) {
  const int forward = bit_count(exchange.bits_forward);
  const int backward = bit_count(exchange.bits_backward);
  std::string text = counted(forward, "bit");
  if (forward != backward) text += fmt::format(" forward, {} backward", backward);
  if (!exchange.auto_bits.empty()) text += fmt::format(" or more ({})", exchange.auto_bits);
  if (exchange.bits_policy != BitsPolicy::uniform) {
    text += fmt::format(" changed by {}", choice_name(exchange.bits_policy));
  }
  if (exchange.gradient_bits != Bits::fp32) {
    text += fmt::format(", {} for weight gradients", bit_count(exchange.gradient_bits));
  }
  return text;
}

/// `exact`: what the bytes would be with node rows in fp32.
std::string bytes_text(std::int64_t bytes, std::int64_t exact) {
  if (bytes <= 0) return "nothing";
  const double ratio = static_cast<double>(exact) / static_cast<double>(bytes);
  if (std::max(ratio, 1 / ratio) < 1.05) return human_bytes(bytes) + " an epoch";
  return fmt::format("{} an epoch, {:.1f}x {} than with rows in fp32 ({})", human_bytes(bytes),
                     std::max(ratio, 1 / ratio), ratio > 1 ? "less" : "more", human_bytes(exact));
}

/// Which exchange moves the gradients by how much; empty if no epoch was verified.
std::string verification_block(const MeanVerification& mean) {
  if (mean.epochs == 0) return "";
  const auto percent = [](double share) {
    return std::isnan(share) ? std::string("-") : fmt::format("{:.3g} %", 100 * share);
  };
  std::vector<std::vector<std::string>> rows{
      {"exchange", "gradients", "bits alone", "share", "logits"}};
  const auto has_aggregate = [](const MeanError& part) { return part.aggregate.has_value(); };
  if (std::ranges::any_of(mean.parts, has_aggregate)) rows[0].push_back("aggregates");
  double squares = 0;
  for (const MeanError& part : mean.parts) {
    if (std::isfinite(part.gradient)) squares += part.gradient * part.gradient;
    rows.push_back({part.site, percent(part.gradient), percent(part.bits_alone),
                    percent(part.share), percent(part.logits)});
    if (part.aggregate) rows.back().push_back(percent(*part.aggregate));
  }
  const MeanError& whole = mean.whole;
  rows.push_back({"all together", percent(whole.gradient), "", "", percent(whole.logits)});
  const std::string text =
      fmt::format("\nVerified in {}, error relative to the step with exact halo rows:\n",
                  counted(mean.epochs, "epoch")) +
      columns(rows);
  if (std::isnan(whole.gradient)) return text + "  the gradients of the exact steps are 0\n";
  if (squares == 0) {
    return text + (mean.whole.logits > 0 ? "  the gradients are exact; the logits are not\n"
                                         : "  every halo row was exact\n");
  }
  return text +
         fmt::format(
             "  of the exchanges' squared errors, {} is {}, {}; they add up to {} of that of "
             "all together\n",
             percent(mean.largest.share), mean.largest.site, mean.largest.name,
             percent(squares / (whole.gradient * whole.gradient)));
}

}  // namespace

std::string staleness_text(const ExchangeOptions& exchange) {
  if (exchange.staleness == 0) return "synchronous";
  const std::string of = exchange.stale_sites == "all" ? "" : " (" + exchange.stale_sites + ")";
  return fmt::format("staleness {}{}", exchange.staleness, of);
}

std::string describe_run(const TrainRequest& request) {
  const TrainOptions& options = request.train;
  std::string text =
      fmt::format("{}, {} of {}, {}, {}", choice_name(options.model.kind),
                  counted(options.model.layers, "layer"), options.model.hidden,
                  counted(options.epochs, "epoch"), counted(options.partition.parts, "rank"));
  if (options.partition.parts > 1) {
    text += fmt::format(" ({}), {}, {}", partitioner_text(options.partition),
                        bits_text(options.exchange), staleness_text(options.exchange));
  }
  return text;
}

std::string result_block(const TrainRequest& request, const TrainResult& result,
                         const std::string& files) {
  std::vector<std::pair<std::string, std::string>> rows;
  const std::size_t count = result.epochs.size();
  const std::string metric = choice_name(result.metric);
  if (result.best_epoch >= 0) {
    rows.emplace_back("test " + metric, score_text(result.test_metric));
    rows.emplace_back("validation " + metric, score_text(result.val_metric));
    rows.emplace_back("best epoch",
                      fmt::format("{} (of 0 to {}), {}{}", result.best_epoch, count - 1,
                                  std::isnan(result.val_metric)
                                      ? "the last that was evaluated: no validation score"
                                      : "by validation",
                                  result.stop_reason == "early_stopping" ? ", stopped early" : ""));
  } else {
    rows.emplace_back("scores", request.train.eval_every == 0
                                    ? "none: --eval-every 0 makes no evaluation"
                                    : "none: the run ended before an evaluation");
  }
  for (const EpochReport& report : result.epochs) {
    if (!report.guard) continue;
    rows.emplace_back("guard", fmt::format("went back before epoch {}, to the weights after {}",
                                           report.epoch, counted(report.guard->epochs, "epoch")));
  }
  const EpochReport* change = nullptr;  // The last one.
  for (const EpochReport& report : result.epochs) {
    if (report.trend) change = &report;
  }
  if (change != nullptr) {
    ExchangeOptions to;
    to.bits_forward = change->trend->bits_forward;
    to.bits_backward = change->trend->bits_backward;
    const bool differ = request.train.exchange.bits_policy == BitsPolicy::degree_trend &&
                        std::max(to.bits_forward, to.bits_backward) < Bits::eight;
    rows.emplace_back("bits policy", fmt::format("{}{} and staleness {} since epoch {}",
                                                 bits_text(to), differ ? " or more" : "",
                                                 change->trend->staleness, change->epoch));
  }
  const nlohmann::ordered_json summary = summarize(result, request.train);
  rows.emplace_back("epoch time",
                    fmt::format("{} median, {} p95",
                                human_seconds(summary["epoch_seconds"]["median"].get<double>()),
                                human_seconds(summary["epoch_seconds"]["p95"].get<double>())));
  const TrafficBytes& sent = result.bytes_per_epoch;
  const std::int64_t exact = result.fp32_bytes_per_epoch;
  rows.emplace_back("node rows sent", bytes_text(sent.halo_forward + sent.halo_backward, exact));
  rows.emplace_back("gradients sent", human_bytes(sent.allreduce) + " an epoch (of weights)");
  rows.emplace_back("together", bytes_text(sent.total(), exact + sent.allreduce));
  if (const auto bytes = summary["link_bytes_per_epoch"].get<std::int64_t>();
      bytes > 0 && request.train.transport.link_gbps > 0) {
    rows.emplace_back("busiest link",
                      fmt::format("{} an epoch, {} at {} Gbit/s", human_bytes(bytes),
                                  human_seconds(summary["link_seconds_per_epoch"].get<double>()),
                                  request.train.transport.link_gbps));
  }
  rows.emplace_back(
      "peak memory",
      fmt::format("{} training, {} setup", human_bytes(static_cast<double>(result.peak_rss_bytes)),
                  human_bytes(static_cast<double>(result.setup_peak_rss_bytes))));
  if (!files.empty()) rows.emplace_back("files", files);
  return two_columns(rows) + verification_block(mean_verification(result.epochs));
}

nlohmann::ordered_json run_manifest(const TrainRequest& request, nlohmann::ordered_json dataset,
                                    const std::vector<std::string>& words) {
  const auto fields = run_fields();
  const std::span<const OptionField<TrainRequest>> view(fields);
  const TransportOptions& transport = request.train.transport;
  const TransportKind kind =
      transport.kind == TransportKind::nccl ? TransportKind::nccl : kind_of_processes();
  std::error_code ignored;
  return {{"version", version()},
          {"command", words},
          {"working_directory", std::filesystem::current_path(ignored).string()},
          {"options", fields_to_json(view, request)},
          {"resolved",
           {{"transport", choice_name(kind)},
            {"threads-per-rank", threads_per_rank(transport, request.train.partition.parts)}}},
          {"seed", request.train.seed},
          {"dataset", std::move(dataset)},
          {"machine", machine_to_json(describe_machine())},
          {"partition_hash", nullptr},
          {"result", nullptr}};
}

}  // namespace heliograph::cli
