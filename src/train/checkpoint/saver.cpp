#include "train/checkpoint/saver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "core/plural.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/checkpoint/folder.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/gather_values.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/run/output_file.hpp"

namespace heliograph {

namespace fs = std::filesystem;

CheckpointSaver::CheckpointSaver(const RunPlan& plan, Communicator& comm, Trainer& trainer,
                                 std::function<void()> before_saving, LogCallback log,
                                 FileLayer& files)
    : plan_(plan),
      options_(plan.options().checkpoint),
      comm_(comm),
      trainer_(trainer),
      before_saving_(std::move(before_saving)),
      log_(std::move(log)),
      files_(files),
      previous_(options_.resume) {}

bool CheckpointSaver::due(int epochs, bool asked, bool last) const {
  if (!enabled()) return false;
  if (asked || (options_.every > 0 && epochs % options_.every == 0)) return true;
  // Else a run that is resumed would fall back behind its own results.
  return last && (options_.every > 0 || !previous_.empty());
}

bool CheckpointSaver::resumed_elsewhere() const {
  std::int64_t elsewhere = 0;
  if (comm_.rank() == 0 && enabled() && !options_.resume.empty()) {
    std::error_code ignored;
    const fs::path resumed = fs::weakly_canonical(options_.resume, ignored).parent_path();
    elsewhere = resumed != fs::weakly_canonical(options_.folder, ignored) ? 1 : 0;
  }
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(&elsewhere, 1));
  return elsewhere != 0;
}

fs::path CheckpointSaver::partial(int epochs) const {
  return options_.folder / partial_name(epochs);
}

bool CheckpointSaver::save(RunState& state, bool must_save) {
  const bool root = comm_.rank() == 0;
  const std::int64_t evaluation_bytes = state.evaluation_bytes.count();
  CheckpointManifest manifest;
  manifest.epochs = state.epochs;
  FileRecord mine;
  std::string failure = attempt([&] {
    if (!root) return;
    if (!identity_) {
      if (before_saving_) before_saving_();
      identity_ = identify_run(plan_);
    }
    manifest.run = *identity_;
    files_.make_directories(options_.folder);
    const fs::path parent = options_.folder.parent_path();
    files_.sync_directory(parent.empty() ? "." : parent);
    files_.remove(partial(state.epochs));
    files_.make_directories(partial(state.epochs));
  });
  if (failure.empty()) {
    failure = attempt([&] { write_files(state, evaluation_bytes, manifest, mine); });
  }
  if (failure.empty()) {
    const auto ranks = gather_values(comm_, std::span<const FileRecord>(&mine, 1));
    failure = attempt([&] {
      if (root) complete(manifest, ranks);
    });
  }
  state.evaluation_bytes.set(evaluation_bytes);
  if (failure.empty()) {
    if (root) remove_others(state.epochs);
    previous_ = options_.folder / checkpoint_name(state.epochs);
    return true;
  }
  if (root) {
    try {
      files_.remove(partial(state.epochs));
    } catch (const std::exception&) {
      // `failure` is reported. The next save removes what is left.
    }
  }
  std::string sentence = fmt::format("the checkpoint after {} was not saved: {}",
                                     counted(state.epochs, "epoch"), failure);
  if (!previous_.empty()) sentence += fmt::format("; {} is whole", previous_.string());
  if (must_save || options_.on_failure == SaveFailure::stop) {
    comm_.set_progress({comm_.progress().epoch, -1});  // A save belongs to no layer.
    // The rank that failed is the one that messages name, so the others wait for its failure.
    if (comm_.rank() != failed_rank_) barrier(comm_, Channel::evaluation);
    throw Error(ErrorCode::resource, sentence);
  }
  if (root && log_) log_(LogLevel::warning, sentence + "; training continues");
  return false;
}

void CheckpointSaver::write_files(const RunState& state, std::int64_t evaluation_bytes,
                                  CheckpointManifest& manifest, FileRecord& mine) {
  const fs::path to = partial(state.epochs);
  if (comm_.rank() == 0) {
    manifest.files[kWeightsFile] = write_model(files_.create(to / kWeightsFile),
                                               make_model(plan_, trainer_, state.epochs - 1));
    if (state.best.epoch() >= 0) {
      manifest.files[kBestFile] = write_model(files_.create(to / kBestFile), state.best_model);
    }
    StateWriter run(files_.create(to / kRunFile));
    write_run_state(state, run);
    manifest.files[kRunFile] = run.close();
  }
  StateWriter rank(files_.create(to / rank_file(comm_.rank())));
  write_rank(trainer_, state, evaluation_bytes, comm_, rank);
  mine = rank.close();
}

void CheckpointSaver::complete(CheckpointManifest& manifest, std::span<const FileRecord> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    manifest.files[rank_file(static_cast<int>(r))] = ranks[r];
  }
  const fs::path from = partial(manifest.epochs);
  const auto sink = files_.create(from / kCheckpointManifest);
  write_checkpoint_manifest(manifest, *sink);
  files_.sync_directory(from);
  publish_checkpoint(options_.folder, manifest.epochs, files_);
}

void CheckpointSaver::remove_others(int epochs) {
  std::error_code ignored;
  const fs::path kept = previous_.empty() ? previous_ : fs::weakly_canonical(previous_, ignored);
  try {
    for (const auto& [others, path] : list_checkpoints(options_.folder)) {
      if (others == epochs || fs::weakly_canonical(path, ignored) == kept) continue;
      // Renamed first, so that no run resumes from a checkpoint that is partly removed.
      const fs::path gone = options_.folder / replaced_name(others);
      files_.remove(gone);
      files_.rename(path, gone);
      files_.remove(gone);
    }
    for (const fs::path& path : list_remains(options_.folder)) files_.remove(path);
  } catch (const std::exception& error) {
    if (log_)
      log_(LogLevel::warning, fmt::format("an old checkpoint was not removed: {}", error.what()));
  }
}

std::string CheckpointSaver::attempt(const std::function<void()>& action) {
  bool fails = true;
  std::string mine;
  try {
    action();
    fails = false;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) throw;  // The sum below would wait for that rank.
    mine = error.what();
  } catch (const std::exception& error) {
    mine = error.what();
  } catch (...) {
    mine = "an exception of unknown type";
  }
  std::vector<std::int64_t> failed(static_cast<std::size_t>(comm_.size()), 0);
  failed[static_cast<std::size_t>(comm_.rank())] = fails ? 1 : 0;
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(failed));
  const auto first = std::find_if(failed.begin(), failed.end(), [](auto f) { return f != 0; });
  if (first == failed.end()) return {};
  failed_rank_ = static_cast<int>(first - failed.begin());
  // It sends its message; the others add zeros.
  std::array<std::int64_t, 64> text{};
  if (failed_rank_ == comm_.rank()) {
    std::memcpy(text.data(), mine.data(), std::min(mine.size(), sizeof(text) - 1));
  }
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(text));
  const std::string said = reinterpret_cast<const char*>(text.data());
  return said.empty() ? "an exception without a message" : said;
}

namespace {

/// Gives the trainer the exchange that the guard of the run has chosen.
void restore_guard(const StateFile& run, Trainer& trainer, const GuardState& guard) {
  const std::vector<ExchangeOptions> exchanges = raised_exchanges(trainer.plan().exchange());
  if (guard.raised >= std::ssize(exchanges)) {
    run.refuse("guard", "is of a run with other exchanges");
  }
  if (guard.kept->values.size() != trainer.model().parameters().flat_values().size()) {
    run.refuse("guard.values", "is of another model");
  }
  if (guard.raised > 0) trainer.set_exchange(exchanges[static_cast<std::size_t>(guard.raised)]);
}

/// Gives the trainer the exchange that the losses of the run have led to.
void replay_trend(Trainer& trainer, RunState& state) {
  std::optional<ExchangeOptions> last;
  for (EpochReport& report : state.reports) {
    if (std::optional<ExchangeOptions> next = state.trend->act(report.epoch)) {
      report.trend = TrendAction{next->bits_forward, next->bits_backward, next->staleness};
      last = std::move(next);
    }
    state.trend->watch(report.loss);
  }
  if (last) trainer.set_exchange(*last);
}

}  // namespace

void restore_run(const CheckpointManifest& manifest, const fs::path& path, const Communicator& comm,
                 Trainer& trainer, RunState& state) {
  const fs::path weights = path / kWeightsFile;
  set_weights(read_model(weights, &manifest.file(kWeightsFile, path)), weights.string(), trainer);
  const StateFile run(path / kRunFile, manifest.file(kRunFile, path));
  read_run_state(run, state);
  if (state.epochs != manifest.epochs) {
    run.refuse("reports",
               fmt::format("holds {} epochs; the manifest says {}", state.epochs, manifest.epochs));
  }
  if (state.best.epoch() >= 0) {
    const fs::path best = path / kBestFile;
    state.best_model = read_model(best, &manifest.file(kBestFile, path));
    require_tensors(state.best_model, best.string(), trainer);
  }
  if (state.guard.kept) restore_guard(run, trainer, state.guard);
  if (state.trend) replay_trend(trainer, state);
  const std::string mine = rank_file(comm.rank());
  read_rank(StateFile(path / mine, manifest.file(mine, path)), comm, trainer, state);
}

}  // namespace heliograph
