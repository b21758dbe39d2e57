#include "train/checkpoint/run_state.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "graph/io/json.hpp"
#include "train/run/verification_summary.hpp"

namespace heliograph {
namespace {

/// One epoch in the section "reports"; every value has 8 bytes, so there is no padding.
struct StoredReport {
  std::int64_t epoch;
  double loss, train_metric, val_metric, test_metric;  // NaN as in TrainResult.
  double seconds;
  EpochSeconds parts;
  TrafficBytes bytes;
  std::int64_t fp32_bytes, lag;
  double lr;
};
static_assert(sizeof(StoredReport) == 18 * 8);

/// The section "best".
struct StoredBest {
  double train, validation, test;
  std::int64_t epoch, waited;
};
static_assert(sizeof(StoredBest) == 5 * 8);

double or_nan(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

std::optional<double> or_none(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>(value);
}

StoredReport to_stored(const EpochReport& r) {
  return {r.epoch,
          r.loss,
          or_nan(r.train_metric),
          or_nan(r.val_metric),
          or_nan(r.test_metric),
          r.seconds,
          r.parts,
          r.bytes,
          r.fp32_bytes,
          r.lag,
          r.lr};
}

EpochReport from_stored(const StoredReport& s) {
  return {static_cast<int>(s.epoch),
          s.loss,
          or_none(s.train_metric),
          or_none(s.val_metric),
          or_none(s.test_metric),
          s.seconds,
          s.parts,
          s.bytes,
          s.fp32_bytes,
          static_cast<int>(s.lag),
          s.lr,
          {},
          {},
          {}};
}

/// Whether all counts of a report are ones that a run may reach.
bool is_plausible(const StoredReport& s) {
  const auto fit = [](auto... bytes) { return (is_sent_bytes(bytes) && ...); };
  return fit(s.bytes.halo_forward, s.bytes.halo_backward, s.bytes.allreduce, s.fp32_bytes, s.lag);
}

constexpr const char* kVerifications = "verifications";

/// As JSON, since their parts and parameters are those of the model. No section if there are none.
void write_verifications(std::span<const EpochReport> reports, StateWriter& file) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const EpochReport& report : reports) {
    if (!report.verification) continue;
    nlohmann::ordered_json object = verification_to_json(*report.verification);
    object["epoch"] = report.epoch;
    all.push_back(std::move(object));
  }
  if (all.empty()) return;
  const std::string text = json_text(all);
  file.section(kVerifications, std::span<const char>(text));
}

void read_verifications(const StateFile& file, std::span<EpochReport> reports) {
  if (!file.has(kVerifications)) return;
  const std::span<const std::byte> bytes = file.section(kVerifications);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (nests_too_deeply(text)) file.refuse(kVerifications, "nests too deeply");
  try {
    for (const auto& object : parse_json<nlohmann::json>(text)) {
      const auto epoch = object.at("epoch").get<std::size_t>();
      if (epoch >= reports.size()) file.refuse(kVerifications, "is not of epochs that have run");
      Verification& verification =
          reports[epoch].verification.emplace(verification_from_json(object));
      verification.epoch = reports[epoch].epoch;
      if (!is_sent_bytes(verification.bytes)) {
        file.refuse(kVerifications, "holds a number that no run reaches");
      }
    }
  } catch (const nlohmann::json::exception&) {
    file.refuse(kVerifications, "cannot be interpreted");
  }
}

/// One GuardAction in the section "guard.actions".
struct StoredAction {
  std::int64_t epoch, epochs, bits_forward, bits_backward;
};

constexpr const char* kGuardActions = "guard.actions";

/// No section if there are none.
void write_guard_actions(std::span<const EpochReport> reports, StateWriter& file) {
  std::vector<StoredAction> all;
  for (const EpochReport& report : reports) {
    if (!report.guard) continue;
    const GuardAction& action = *report.guard;
    all.push_back({report.epoch, action.epochs, bit_count(action.bits_forward),
                   bit_count(action.bits_backward)});
  }
  if (!all.empty()) file.section(kGuardActions, std::span<const StoredAction>(all));
}

void read_guard_actions(const StateFile& file, std::span<EpochReport> reports) {
  if (!file.has(kGuardActions)) return;
  std::vector<StoredAction> all(file.count<StoredAction>(kGuardActions));
  file.read(kGuardActions, std::span<StoredAction>(all));
  for (const StoredAction& s : all) {
    const auto is_width = [](std::int64_t bits) {
      return bits >= 1 && bits <= 32 && std::has_single_bit(static_cast<std::uint64_t>(bits));
    };
    if (s.epoch < 0 || s.epoch >= std::ssize(reports) || s.epochs < 0 || s.epochs > s.epoch ||
        !is_width(s.bits_forward) || !is_width(s.bits_backward)) {
      file.refuse(kGuardActions, "holds a number that no run reaches");
    }
    reports[static_cast<std::size_t>(s.epoch)].guard =
        GuardAction{static_cast<int>(s.epochs), static_cast<Bits>(s.bits_forward),
                    static_cast<Bits>(s.bits_backward)};
  }
}

/// The section "guard".
struct StoredGuard {
  std::int64_t watched, raised, undone;
  std::array<double, GuardState::kWindow> losses;
  double lowest, kept_mean;
  std::int64_t kept_epochs, kept_steps;
};
static_assert(sizeof(StoredGuard) == (7 + GuardState::kWindow) * 8);

constexpr const char* kGuard = "guard";
constexpr const char* kGuardValues = "guard.values";

/// No sections if the run has had no guard.
void write_guard(const GuardState& guard, StateWriter& file) {
  if (!guard.kept) return;
  const KeptStep& kept = *guard.kept;
  const StoredGuard stored{guard.watched, guard.raised, guard.undone, guard.losses,
                           guard.lowest,  kept.mean,    kept.epochs,  kept.steps};
  file.section(kGuard, std::span<const StoredGuard>(&stored, 1));
  file.section(kGuardValues, std::span<const float>(kept.values));
}

void read_guard(const StateFile& file, std::span<const EpochReport> reports, GuardState& guard) {
  if (!file.has(kGuard)) return;
  StoredGuard s{};
  file.read(kGuard, std::span<StoredGuard>(&s, 1));
  const std::int64_t epochs = std::ssize(reports);
  const std::int64_t actions =
      std::ranges::count_if(reports, [](const EpochReport& r) { return r.guard.has_value(); });
  const auto within = [](std::int64_t value, std::int64_t most) {
    return value >= 0 && value <= most;
  };
  const bool ordered = within(s.watched, epochs) && s.raised == actions &&
                       within(s.undone, epochs - 1) && (s.undone > 0) == (s.raised > 0) &&
                       within(s.kept_epochs, epochs) &&
                       within(s.kept_steps, std::min(s.kept_epochs, epochs - s.undone));
  const auto finite = [](auto value) { return std::isfinite(value); };
  if (!ordered || !std::ranges::all_of(s.losses, finite) || !(s.lowest >= 0) ||
      !(s.kept_mean >= 0)) {
    file.refuse(kGuard, "holds a number that no run reaches");
  }
  guard = {s.watched, s.raised, s.undone, s.losses, s.lowest, KeptStep{}};
  KeptStep& kept = *guard.kept;
  kept.epochs = s.kept_epochs;
  kept.steps = s.kept_steps;
  kept.mean = s.kept_mean;
  kept.values.resize(file.count<float>(kGuardValues));
  file.read(kGuardValues, std::span<float>(kept.values));
  if (!std::ranges::all_of(kept.values, finite)) file.refuse(kGuardValues, "holds NaN or Inf");
}

}  // namespace

void write_run_state(const RunState& state, StateWriter& file) {
  const Scores& scores = state.best.scores();
  const StoredBest best{scores.train, scores.validation, scores.test, state.best.epoch(),
                        state.best.waited()};
  file.section("best", std::span<const StoredBest>(&best, 1));
  std::vector<StoredReport> all;
  all.reserve(state.reports.size());
  for (const EpochReport& r : state.reports) all.push_back(to_stored(r));
  file.section("reports", std::span<const StoredReport>(all));
  write_verifications(state.reports, file);
  write_guard_actions(state.reports, file);
  write_guard(state.guard, file);
}

void read_run_state(const StateFile& file, RunState& state) {
  StoredBest best{};
  file.read("best", std::span<StoredBest>(&best, 1));
  std::vector<StoredReport> all(file.count<StoredReport>("reports"));
  file.read("reports", std::span<StoredReport>(all));
  state.epochs = static_cast<int>(all.size());
  if (best.epoch < -1 || best.epoch >= state.epochs || best.waited < 0 ||
      best.waited > state.epochs) {
    file.refuse("best", "is not of one of the epochs that have run");
  }
  state.best.restore(static_cast<int>(best.epoch), {best.train, best.validation, best.test},
                     static_cast<int>(best.waited));
  for (const StoredReport& s : all) {
    if (s.epoch != std::ssize(state.reports)) {
      file.refuse("reports", "does not hold one report for each epoch, in order");
    }
    if (!is_plausible(s)) file.refuse("reports", "holds a number that no run reaches");
    state.reports.push_back(from_stored(s));
  }
  read_verifications(file, state.reports);
  read_guard_actions(file, state.reports);
  read_guard(file, state.reports, state.guard);
}

}  // namespace heliograph
