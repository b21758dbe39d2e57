#include "train/run/summary.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "graph/io/json.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/options/parse.hpp"
#include "train/options/values.hpp"
#include "train/run/verification_summary.hpp"

namespace heliograph {
namespace {

using nlohmann::ordered_json;

ordered_json optional_json(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json seconds_to_json(std::span<const EpochReport> epochs) {
  using Phase = double EpochSeconds::*;
  constexpr std::pair<const char*, Phase> phases[]{
      {"aggregate", &EpochSeconds::aggregate}, {"gemm", &EpochSeconds::gemm},
      {"encode", &EpochSeconds::encode},       {"exposed_comm", &EpochSeconds::exposed_comm},
      {"allreduce", &EpochSeconds::allreduce}, {"other", &EpochSeconds::other}};
  const double count = std::max<double>(1.0, static_cast<double>(epochs.size()));
  ordered_json means;
  for (const auto& [name, phase] : phases) {
    double sum = 0;
    for (const EpochReport& epoch : epochs) sum += epoch.parts.*phase;
    means[name] = sum / count;
  }
  return means;
}

ordered_json memory_to_json(const MemoryReport& memory) {
  return {{"graph", memory.graph},
          {"features", memory.features},
          {"activations", memory.activations},
          {"gradients", memory.gradients},
          {"halo", memory.halo},
          {"weights", memory.weights},
          {"workspace", memory.workspace},
          {"evaluation", memory.evaluation},
          {"total", memory.total()}};
}

ordered_json guard_to_json(const GuardAction& action) {
  return {{"epochs", action.epochs},
          {"bits_forward", bit_count(action.bits_forward)},
          {"bits_backward", bit_count(action.bits_backward)}};
}

ordered_json trend_to_json(const TrendAction& action) {
  return {{"bits_forward", bit_count(action.bits_forward)},
          {"bits_backward", bit_count(action.bits_backward)},
          {"staleness", action.staleness}};
}

/// What was done in a run, with the epoch before which it was done. `action` may be empty.
template <class Action, class ToJson>
ordered_json actions_to_json(std::span<const EpochReport> epochs,
                             std::optional<Action> EpochReport::*action, ToJson to_json) {
  ordered_json actions = ordered_json::array();
  for (const EpochReport& report : epochs) {
    if (!(report.*action)) continue;
    ordered_json object{{"epoch", report.epoch}};
    object.update(to_json(*(report.*action)));
    actions.push_back(std::move(object));
  }
  return actions;
}

/// Calls visit(name, value) for each figure of a PartitionQuality.
template <class Quality, class Visit>
void for_each_figure(Quality& quality, Visit visit) {
  visit("edge_cut", quality.edge_cut);
  visit("communication_volume", quality.communication_volume);
  visit("inner_nodes", quality.inner_nodes);
  visit("halo_nodes", quality.halo_nodes);
  visit("inner_edges", quality.inner_edges);
  visit("halo_edges", quality.halo_edges);
  visit("node_balance", quality.node_balance);
  visit("edge_balance", quality.edge_balance);
}

}  // namespace

int dropped_epochs(std::size_t epochs) { return epochs > 10 ? 5 : 0; }

double quantile(std::span<const double> values, double share) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

ordered_json epoch_to_json(const EpochReport& report) {
  ordered_json object{{"epoch", report.epoch},
                      {"loss", report.loss},
                      {"train_metric", optional_json(report.train_metric)},
                      {"val_metric", optional_json(report.val_metric)},
                      {"test_metric", optional_json(report.test_metric)},
                      {"seconds", report.seconds},
                      {"bytes", report.bytes.total()},
                      {"lag", report.lag},
                      {"lr", shortest_decimal(static_cast<float>(report.lr))}};
  if (report.verification) object["verification"] = verification_to_json(*report.verification);
  if (report.guard) object["guard"] = guard_to_json(*report.guard);
  if (report.trend) object["trend"] = trend_to_json(*report.trend);
  return object;
}

ordered_json partition_to_json(const PartitionQuality& quality) {
  ordered_json object;
  for_each_figure(quality, [&](const char* name, const auto& value) { object[name] = value; });
  return object;
}

PartitionQuality partition_from_json(const nlohmann::json& object) {
  PartitionQuality quality;
  for_each_figure(quality, [&](const char* name, auto& value) { object.at(name).get_to(value); });
  return quality;
}

ordered_json covers_to_json(const CoverCounts& covers) {
  return {{"boundary_rows", covers.boundary_rows},
          {"rows", covers.rows},
          {"sums", covers.sums},
          {"summed", covers.summed}};
}

CoverCounts covers_from_json(const nlohmann::json& object) {
  return {object.at("boundary_rows").get<std::int64_t>(), object.at("rows").get<std::int64_t>(),
          object.at("sums").get<std::int64_t>(), object.at("summed").get<std::int64_t>()};
}

ordered_json traffic_to_json(const TrainResult& result) {
  ordered_json links = ordered_json::array();
  for (const LinkTraffic& link : result.halo_traffic) {
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"site", result.sites[static_cast<std::size_t>(link.site)].name},
                     {"bytes", link.bytes},
                     {"fp32_bytes", link.fp32_bytes}});
  }
  return links;
}

/// The names of the sites whose rows may be late.
ordered_json late_sites(const TrainResult& result) {
  ordered_json names = ordered_json::array();
  for (const ExchangeSite& site : result.sites) {
    if (site.late) names.push_back(site.name);
  }
  return names;
}

/// The mean bits of each site's rows, if these have bits of their own.
ordered_json row_bits(const TrainResult& result, const ExchangeOptions& exchange) {
  if (exchange.auto_bits.empty() && !bits_follow_degree(exchange.bits_policy)) return nullptr;
  ordered_json bits = ordered_json::object();
  for (const ExchangeSite& site : result.sites) {
    if (site.bits > 0) bits[site.name] = site.bits;
  }
  return bits;
}

std::int64_t busiest_link_bytes(const TrainResult& result, int ranks) {
  if (ranks < 2 || result.epochs.empty()) return 0;
  std::map<std::pair<int, int>, std::int64_t> links;
  for (const LinkTraffic& link : result.halo_traffic) links[{link.from, link.to}] += link.bytes;
  std::int64_t most = 0;
  for (const auto& [link, bytes] : links) most = std::max(most, bytes);
  // Every link has the same share of the weight gradients.
  return most / static_cast<std::int64_t>(result.epochs.size()) +
         result.bytes_per_epoch.allreduce / (std::int64_t{ranks} * (ranks - 1));
}

ordered_json summarize(const TrainResult& result, const TrainOptions& options) {
  const int dropped = dropped_epochs(result.epochs.size());
  const auto timed = std::span(result.epochs).subspan(static_cast<std::size_t>(dropped));
  std::vector<double> seconds;
  for (const EpochReport& epoch : timed) seconds.push_back(epoch.seconds);
  const bool evaluated = result.best_epoch >= 0;
  const int bits = bit_count(options.exchange.bits_forward);
  const std::int64_t link_bytes = busiest_link_bytes(result, options.partition.parts);
  const double gbps = options.transport.link_gbps;
  const std::string& chosen = options.exchange.auto_bits;
  const bool same_bits = options.exchange.bits_forward == options.exchange.bits_backward &&
                         options.exchange.bits_policy == BitsPolicy::uniform;
  return {{"metric", choice_name(result.metric)},
          {"test_metric", evaluated ? ordered_json(result.test_metric) : ordered_json()},
          {"val_metric", evaluated ? ordered_json(result.val_metric) : ordered_json()},
          {"best_epoch", evaluated ? ordered_json(result.best_epoch) : ordered_json()},
          {"epochs", result.epochs.size()},
          {"stop_reason", result.stop_reason},
          {"dropped_epochs", dropped},
          {"epoch_seconds", {{"median", quantile(seconds, 0.5)}, {"p95", quantile(seconds, 0.95)}}},
          {"seconds", seconds_to_json(timed)},
          {"setup_seconds", result.setup_seconds},
          {"bytes_per_epoch",
           {{"halo_forward", result.bytes_per_epoch.halo_forward},
            {"halo_backward", result.bytes_per_epoch.halo_backward},
            {"allreduce", result.bytes_per_epoch.allreduce},
            {"total", result.bytes_per_epoch.total()}}},
          {"fp32_bytes_per_epoch", result.fp32_bytes_per_epoch},
          {"link_bytes_per_epoch", link_bytes},
          {"link_seconds_per_epoch",
           gbps > 0 ? ordered_json(link_seconds(link_bytes, gbps)) : ordered_json()},
          {"halo_traffic", traffic_to_json(result)},
          {"evaluation_bytes", result.evaluation_bytes},
          {"peak_rss_bytes", result.peak_rss_bytes},
          {"setup_peak_rss_bytes", result.setup_peak_rss_bytes},
          {"shard_bytes", result.shard_bytes},
          {"loading_bytes", result.loading_bytes},
          {"memory", memory_to_json(result.memory)},
          {"ranks", options.partition.parts},
          {"cuda_graph_ranks", result.cuda_graph_ranks},
          {"bits", same_bits && chosen.empty() ? ordered_json(bits) : ordered_json()},
          {"bits_forward", bits},
          {"bits_backward", bit_count(options.exchange.bits_backward)},
          {"row_bits", row_bits(result, options.exchange)},
          {"gradient_bits", bit_count(options.exchange.gradient_bits)},
          {"staleness", options.exchange.staleness},
          {"late_sites", late_sites(result)},
          {"seed", options.seed},
          {"parameters", result.parameters},
          {"verification", mean_verification_to_json(mean_verification(result.epochs))},
          {"guard", actions_to_json(result.epochs, &EpochReport::guard, guard_to_json)},
          {"trend", actions_to_json(result.epochs, &EpochReport::trend, trend_to_json)},
          {"covers", result.covers ? covers_to_json(*result.covers) : ordered_json()},
          {"kept_columns", result.kept_columns},
          {"partition", partition_to_json(result.partition)},
          {"partition_hash", result.partition_hash}};
}

bool is_summary(const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto object = try_parse_json(file);
  return object.is_object() && object.contains("stop_reason") && object.contains("epoch_seconds") &&
         object.contains("bytes_per_epoch");
}

}  // namespace heliograph
