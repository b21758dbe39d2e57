#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "comm/threads/transport.hpp"
#include "graph/io/files.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/checkpoint/folder.hpp"
#include "train/checkpoint/saver.hpp"
#include "train/plan/dataset_plan.hpp"

// A whole checkpoint exists, whatever fails in a save and wherever the process dies in it.

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// A disk whose n-th operation fails and, if the process is to die there, every later one too.
class FaultyFiles final : public FileLayer {
 public:
  FaultyFiles(int fails_on, bool dies) : fails_on_(fails_on), dies_(dies) {}

  void make_directories(const fs::path& path) override {
    count(path);
    disk_files().make_directories(path);
  }
  std::unique_ptr<FileSink> create(const fs::path& path) override {
    count(path);
    return std::make_unique<Sink>(*this, path, disk_files().create(path));
  }
  void rename(const fs::path& from, const fs::path& to) override {
    count(from);
    disk_files().rename(from, to);
  }
  void sync_directory(const fs::path& path) override {
    count(path);
    disk_files().sync_directory(path);
  }
  void remove(const fs::path& path) override {
    count(path);
    disk_files().remove(path);
  }

  int operations() const { return operations_; }

 private:
  class Sink final : public FileSink {
   public:
    Sink(FaultyFiles& files, fs::path path, std::unique_ptr<FileSink> sink)
        : files_(files), path_(std::move(path)), sink_(std::move(sink)) {}
    void write(std::span<const std::byte> bytes) override {
      files_.count(path_);
      sink_->write(bytes);
    }
    void close() override {
      files_.count(path_);
      sink_->close();
    }
    std::uint64_t size() const override { return sink_->size(); }
    std::uint64_t hash() const override { return sink_->hash(); }

   private:
    FaultyFiles& files_;
    fs::path path_;
    std::unique_ptr<FileSink> sink_;
  };

  void count(const fs::path& path) {
    const int operation = ++operations_;
    if (operation != fails_on_ && !(dies_ && operation > fails_on_)) return;
    throw Error(ErrorCode::resource, "cannot write " + path.string() + ": injected");
  }

  const int fails_on_;
  const bool dies_;
  std::atomic<int> operations_{0};
};

struct Outcome {
  bool saved = false;
  bool saved_later = false;
  std::string warning;
};

class SaveFailures : public ::testing::Test {
 protected:
  /// Saves after epoch 1, with `files` after epoch 2, and after epoch 3.
  Outcome run(FaultyFiles& files, const fs::path& folder, SaveFailure on_failure) {
    TrainOptions o = test::small_options(2, 4);
    o.model.hidden = 4;
    o.exchange.staleness = 1;
    o.checkpoint.folder = folder;
    o.checkpoint.on_failure = on_failure;
    const DatasetPlan plan(data_, o, {});
    Outcome outcome;
    const LogCallback log = [&](LogLevel, std::string_view text) { outcome.warning += text; };
    run_ranks(2, {{}, 20}, [&](Communicator& comm) {
      MemoryAccount account;
      Trainer trainer(plan,
                      plan.load(comm.rank(), GraphScope::training, MemoryUse::features, &account),
                      comm, &account);
      CheckpointSaver healthy(plan, comm, trainer, {}, log);
      CheckpointSaver faulty(plan, comm, trainer, {}, log, files);
      RunState state(0, Metric::accuracy, comm);
      const auto epoch = [&](CheckpointSaver& saver) {
        state.reports.push_back(
            trainer.run_epoch(state.epochs, [] { return RunRequests(); }).report);
        ++state.epochs;
        const bool saved = saver.save(state, false);
        trainer.finish();
        return saved;
      };
      EXPECT_TRUE(epoch(healthy));
      const bool saved = epoch(faulty);
      if (comm.rank() == 0) {
        outcome.saved = saved;
        EXPECT_NO_THROW(verify_checkpoint(newest_checkpoint(folder)));
        // What a process that died has left is not listed as a checkpoint.
        for (const auto& [epochs, path] : list_checkpoints(folder)) {
          EXPECT_NO_THROW(verify_checkpoint(path));
        }
        EXPECT_TRUE(!saved || newest_checkpoint(folder).filename() == "epoch-000002");
      }
      const bool later = epoch(healthy);
      if (comm.rank() == 0) outcome.saved_later = later;
    });
    return outcome;
  }

  Dataset data_ = test::make_small_dataset(40, 3, 2, 5);
};

TEST_F(SaveFailures, AnyFailedOperationLeavesAWholeCheckpointAndTheRunGoesOn) {
  const test::TemporaryDirectory folder;
  FaultyFiles counter(INT_MAX, false);
  ASSERT_TRUE(run(counter, folder / "whole", SaveFailure::stop).saved);
  const int operations = counter.operations();
  ASSERT_GT(operations, 40);
  int failures = 0;
  for (const bool dies : {false, true}) {
    for (int n = 1; n <= operations; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n) + (dies ? ", dying" : ""));
      const fs::path here = folder / (std::to_string(n) + (dies ? "d" : "f"));
      FaultyFiles files(n, dies);
      const Outcome outcome = run(files, here, SaveFailure::keep_going);
      EXPECT_TRUE(outcome.saved_later);
      EXPECT_NE(outcome.warning.find("injected"), std::string::npos);
      failures += outcome.saved ? 0 : 1;
      // The next save removes what the failed one has left.
      EXPECT_TRUE(list_remains(here).empty());
      EXPECT_EQ(newest_checkpoint(here).filename(), "epoch-000003");
      EXPECT_NO_THROW(verify_checkpoint(newest_checkpoint(here)));
      EXPECT_LE(list_checkpoints(here).size(), 2U);
    }
  }
  // A save succeeds if only the removal of older checkpoints fails.
  EXPECT_GE(failures, 2 * (operations - 3));
}

TEST_F(SaveFailures, StopEndsEveryRankWithTheSentence) {
  const test::TemporaryDirectory folder;
  for (const int n : {1, 5, 20, 40}) {
    FaultyFiles files(n, false);
    test::expect_error(ErrorCode::resource,
                       {"the checkpoint after 2 epochs was not saved", "injected"},
                       [&] { run(files, folder / std::to_string(n), SaveFailure::stop); });
    EXPECT_EQ(newest_checkpoint(folder / std::to_string(n)).filename(), "epoch-000001");
    EXPECT_NO_THROW(verify_checkpoint(newest_checkpoint(folder / std::to_string(n))));
  }
}

TEST_F(SaveFailures, WhateverBeforeSavingThrowsIsAFailedSave) {
  const test::TemporaryDirectory folder;
  TrainOptions o = test::small_options(2, 3);
  o.checkpoint.folder = folder.path();
  o.checkpoint.every = 1;
  std::string warnings;
  int calls = 0;
  TrainCallbacks callbacks;
  callbacks.before_saving = [&] {
    ++calls;
    throw calls;
  };
  callbacks.log = [&](LogLevel, std::string_view text) { warnings += text; };
  const char* sentence = "was not saved: an exception of unknown type";
  o.checkpoint.on_failure = SaveFailure::stop;
  test::expect_error(ErrorCode::resource, sentence, [&] { train(data_, o, callbacks); });
  EXPECT_EQ(calls, 1);
  o.checkpoint.on_failure = SaveFailure::keep_going;
  callbacks.before_saving = [&] {
    if (++calls == 2) throw std::runtime_error("");
  };
  EXPECT_EQ(train(data_, o, callbacks).epochs.size(), 3U);
  EXPECT_NE(warnings.find("was not saved: an exception without a message"), std::string::npos);
  EXPECT_EQ(newest_checkpoint(folder.path()).filename(), "epoch-000003");
}

TEST(CheckpointFolderDeathTest, NoCheckpointIsPublishedOnceFilesAreAbandoned) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const test::TemporaryDirectory folder;
  fs::create_directories(folder / partial_name(1));
  EXPECT_EXIT(
      {
        abandon_unpublished(false);
        std::promise<void> begun;
        std::thread([&] {
          begun.set_value();
          publish_checkpoint(folder.path(), 1, disk_files());
        }).detach();
        begun.get_future().wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const bool published = fs::exists(folder / checkpoint_name(1));
        fs::remove_all(folder.path());
        std::_Exit(published ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(CheckpointFolder, ReadsNamesExactly) {
  const test::TemporaryDirectory folder;
  for (const char* name :
       {"epoch-000002", "epoch-000010", "epoch-1234567", "epoch-2", "epoch-", "epoch-00000x",
        "notes", ".epoch-000003.partial", ".epoch-000004.replaced", ".epoch-3.partial"}) {
    fs::create_directories(folder / name);
  }
  std::vector<int> epochs;
  for (const auto& [number, path] : list_checkpoints(folder.path())) epochs.push_back(number);
  EXPECT_EQ(epochs, (std::vector<int>{2, 10, 1234567}));
  EXPECT_EQ(list_remains(folder.path()).size(), 2U);
  EXPECT_EQ(newest_checkpoint(folder.path()).filename(), "epoch-1234567");
  remove_checkpoints(folder.path());
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  EXPECT_TRUE(fs::exists(folder / "notes"));
  EXPECT_EQ(newest_checkpoint(folder / "nowhere"), fs::path());
}

}  // namespace
}  // namespace heliograph
