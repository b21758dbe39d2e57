#include "train/checkpoint/saver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/checkpoint/folder.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

}  // namespace

CheckpointSaver::CheckpointSaver(const CheckpointOptions& options, Communicator& comm,
                                 Trainer& trainer, std::function<RunIdentity()> identify,
                                 LogCallback log, FileLayer& files)
    : options_(options),
      comm_(comm),
      trainer_(trainer),
      identify_(std::move(identify)),
      log_(std::move(log)),
      files_(files),
      previous_(options.resume) {}

bool CheckpointSaver::due(int epochs, bool asked, bool last) const {
  if (!enabled()) return false;
  return asked || (options_.every > 0 && (last || epochs % options_.every == 0));
}

fs::path CheckpointSaver::partial(int epochs) const {
  return options_.folder / partial_name(epochs);
}

bool CheckpointSaver::save(const RunState& state, std::span<const EpochReport> reports,
                           bool must_save) {
  const bool root = comm_.rank() == 0;
  const std::int64_t evaluation_bytes = trainer_.evaluation_bytes();
  CheckpointManifest manifest;
  manifest.epochs = state.epochs;
  FileRecord mine;
  std::string failure = attempt([&] {
    if (!root) return;
    if (!identity_) identity_ = identify_();
    manifest.run = *identity_;
    files_.make_directories(options_.folder);
    const fs::path parent = options_.folder.parent_path();
    files_.sync_directory(parent.empty() ? "." : parent);
    files_.remove(partial(state.epochs));
    files_.make_directories(partial(state.epochs));
  });
  if (failure.empty()) {
    failure = attempt([&] { write_files(state, reports, evaluation_bytes, manifest, mine); });
  }
  if (failure.empty()) {
    const std::vector<std::byte> all =
        gather_to_root(comm_, Channel::evaluation, std::as_bytes(std::span(&mine, 1)));
    std::vector<FileRecord> ranks(all.size() / sizeof(FileRecord));
    if (!all.empty()) std::memcpy(ranks.data(), all.data(), all.size());
    failure = attempt([&] {
      if (root) complete(manifest, ranks);
    });
  }
  trainer_.set_evaluation_bytes(evaluation_bytes);
  if (failure.empty()) {
    if (root) remove_others(state.epochs);
    previous_ = options_.folder / checkpoint_name(state.epochs);
    return true;
  }
  if (root) {
    try {
      files_.remove(partial(state.epochs));
    } catch (const std::exception&) {
      // The sentence says already what is wrong with the disk; the next save removes it.
    }
  }
  const std::string sentence =
      fmt::format("the checkpoint after {} epochs was not saved: {}", state.epochs, failure);
  if (must_save || options_.on_failure == SaveFailure::stop) {
    throw Error(ErrorCode::resource, sentence);
  }
  if (root && log_) log_(LogLevel::warning, sentence + "; training goes on");
  return false;
}

void CheckpointSaver::write_files(const RunState& state, std::span<const EpochReport> reports,
                                  std::int64_t evaluation_bytes, CheckpointManifest& manifest,
                                  FileRecord& mine) {
  const fs::path to = partial(state.epochs);
  if (comm_.rank() == 0) {
    manifest.files[kWeightsFile] =
        write_safetensors(files_.create(to / kWeightsFile), trainer_.weights());
    StateWriter run(files_.create(to / kRunFile));
    write_run_state(state, reports, run);
    trainer_.write_optimizer(run);
    manifest.files[kRunFile] = run.close();
  }
  StateWriter rank(files_.create(to / rank_file(comm_.rank())));
  trainer_.write_rank(rank, state.epochs, evaluation_bytes);
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
      // Under a name that nobody resumes from first: removing takes many steps.
      const fs::path gone = options_.folder / replaced_name(others);
      files_.remove(gone);
      files_.rename(path, gone);
      files_.remove(gone);
    }
    for (const fs::path& path : list_remains(options_.folder)) files_.remove(path);
  } catch (const std::exception& error) {
    if (log_) log_(LogLevel::warning, fmt::format("an old checkpoint stays: {}", error.what()));
  }
}

std::string CheckpointSaver::attempt(const std::function<void()>& action) {
  std::string mine;
  try {
    action();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) throw;  // There is nobody to agree with.
    mine = error.what();
  } catch (const std::exception& error) {
    mine = error.what();
  }
  AllReduce agree(comm_, Channel::evaluation);
  std::vector<std::int64_t> failed(static_cast<std::size_t>(comm_.size()), 0);
  failed[static_cast<std::size_t>(comm_.rank())] = mine.empty() ? 0 : 1;
  agree.sum(std::span<std::int64_t>(failed));
  const auto first = std::find_if(failed.begin(), failed.end(), [](auto f) { return f != 0; });
  if (first == failed.end()) return {};
  // Whoever failed first by rank is heard; the others add zeros to its text.
  std::array<std::int64_t, 64> text{};
  if (first - failed.begin() == comm_.rank()) {
    std::memcpy(text.data(), mine.data(), std::min(mine.size(), sizeof(text) - 1));
  }
  agree.sum(std::span<std::int64_t>(text));
  return reinterpret_cast<const char*>(text.data());
}

RunState restore_run(const CheckpointManifest& manifest, const fs::path& path, int patience,
                     Trainer& trainer, Communicator& comm) {
  const Safetensors weights(path / kWeightsFile, manifest.file(kWeightsFile, path));
  weights.load(trainer.weights());
  trainer.store_weights();
  const StateFile run(path / kRunFile, manifest.file(kRunFile, path));
  trainer.read_optimizer(run);
  RunState state = read_run_state(run, patience);
  if (state.epochs != manifest.epochs) {
    run.refuse("reports",
               fmt::format("holds {} epochs; the manifest says {}", state.epochs, manifest.epochs));
  }
  const std::string mine = rank_file(comm.rank());
  trainer.read_rank(StateFile(path / mine, manifest.file(mine, path)), manifest.epochs);
  return state;
}

}  // namespace heliograph
