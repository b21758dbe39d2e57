#include "comm/watch/rank_watch.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/clock.hpp"
#include "comm/processes/communicator.hpp"
#include "comm/processes/launcher.hpp"
#include "comm/rendezvous/rendezvous.hpp"
#include "comm/sleep_for.hpp"
#include "comm/tickets.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using test::error_of;
using test::sleep_for;

/// The watches of several ranks, all in this process.
class Watches {
 public:
  explicit Watches(int ranks, const SilenceLimits& limits = {})
      : all_(static_cast<std::size_t>(ranks), introduce_process()) {
    for (int rank = 0; rank < ranks; ++rank) {
      watches_.push_back(std::make_unique<RankWatch>(rank, ranks, limits));
      all_[static_cast<std::size_t>(rank)].port = rendezvous_.emplace_back(rank, all_).port();
    }
    each([&](RankWatch& watch, int rank) {
      auto& rendezvous = rendezvous_[static_cast<std::size_t>(rank)];
      watch.start(std::move(rendezvous.connect(all_, 1, limits.loading)[0]), all_);
    });
  }

  RankWatch& operator[](int rank) { return *watches_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(watches_.size()); }
  /// Closes a watch as if its process had ended.
  void end(int rank) { watches_[static_cast<std::size_t>(rank)].reset(); }

  /// Calls action(watch, rank) for all ranks, each on a thread of its own.
  void each(const std::function<void(RankWatch&, int)>& action) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      if (watches_[static_cast<std::size_t>(rank)] == nullptr) continue;
      threads.emplace_back([&, rank] { action((*this)[rank], rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<RankWatch>> watches_;
  std::deque<Rendezvous> rendezvous_;
  std::vector<Introduction> all_;
};

TEST(RankWatch, AProcessThatEndsIsNoticedAtOnce) {
  constexpr double kSilence = 60;
  Watches watches(4, {kSilence, kSilence, kSilence});
  watches.end(2);
  watches.each([&](RankWatch& watch, int rank) {
    EXPECT_TRUE(watch.wait_for_failure(kSilence / 2));
    EXPECT_EQ(watch.failure_code(), ErrorCode::peer_lost);
    EXPECT_TRUE(watch.must_report()) << rank;  // Every survivor reports.
    const std::string text = watch.failure_text();
    EXPECT_EQ(text.find("rank 2 was lost on host "), 0U) << text;
    EXPECT_NE(text.find("while loading: its process has ended without a word"), std::string::npos)
        << text;
    test::expect_error(ErrorCode::peer_lost, "", [&] { watch.throw_if_failed(); });
  });
}

TEST(RankWatch, NamesNoEpochWhereThereIsNone) {
  Watches watches(2);
  watches[1].set_phase(RunPhase::scoring);  // Tells at once.
  watches.end(1);
  ASSERT_TRUE(watches[0].wait_for_failure(5));
  EXPECT_NE(watches[0].failure_text().find(" while scoring: "), std::string::npos)
      << watches[0].failure_text();
}

TEST(RankWatch, TellsWhereTheLostRankAndTheSurvivorWere) {
  Watches watches(2);
  auto gone = std::make_unique<ProcessCommunicator>(1, 2, 1.0, 1024, watches[1]);
  ProcessCommunicator stays(0, 2, 1.0, 1024, watches[0]);
  gone->set_progress({7, 2});
  stays.set_progress({7, 1});
  watches[1].set_phase(RunPhase::training);  // Tells at once.
  gone.reset();
  watches.end(1);
  ASSERT_TRUE(watches[0].wait_for_failure(5));
  const std::string text = watches[0].failure_text();
  EXPECT_EQ(text.find("rank 1 was lost on host "), 0U) << text;
  EXPECT_NE(text.find(" while training, last heard of in epoch 7, layer 2: "), std::string::npos)
      << text;
  EXPECT_NE(text.find("(noticed by rank 0, epoch 7, layer 1)"), std::string::npos) << text;
}

TEST(RankWatch, AFailureReachesAllWithItsReasonAndStaysItsOwners) {
  Watches watches(3);
  watches[1].fail_by_exception({3, 0}, ErrorCode::numeric, "NaN in the loss");
  watches.each([](RankWatch& watch, int) { EXPECT_TRUE(watch.wait_for_failure(5)); });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(watches[rank].failure_text(), "rank 1, epoch 3, layer 0: NaN in the loss");
    EXPECT_EQ(watches[rank].failure_code(), ErrorCode::numeric);
    test::expect_error(rank == 1 ? ErrorCode::numeric : ErrorCode::peer_lost, "NaN in the loss",
                       [&] { watches[rank].rethrow(); });
  }
  watches.each(
      [&](RankWatch& watch, int rank) { EXPECT_EQ(watch.must_report(), rank == 1) << rank; });
}

TEST(RankWatch, WhatAnExceptionCausesIsToldOnlyIfItPassesForLong) {
  for (const bool late : {false, true}) {
    Watches watches(2);
    watches[1].fail_while_unwinding({3, 0}, ErrorCode::peer_lost, "halos in flight");
    EXPECT_TRUE(watches[1].failed());
    if (!late) watches[1].fail_by_exception({3, 0}, ErrorCode::numeric, "NaN in the loss");
    EXPECT_TRUE(watches[0].wait_for_failure(5));
    EXPECT_EQ(watches[0].failure_text(), late ? "rank 1, epoch 3, layer 0: halos in flight"
                                              : "rank 1, epoch 3, layer 0: NaN in the loss");
    EXPECT_EQ(watches[0].failure_code(), late ? ErrorCode::peer_lost : ErrorCode::numeric);
  }
}

TEST(RankWatch, AnEchoOfWhatAnExceptionCausedIsToldAtOnce) {
  Watches watches(2);
  watches[1].fail_while_unwinding({3, 0}, ErrorCode::peer_lost, "halos in flight");
  watches[1].fail_by_exception({3, 0}, ErrorCode::peer_lost, watches[1].failure_text());
  EXPECT_TRUE(watches[0].wait_for_failure(5));
  EXPECT_EQ(watches[0].failure_text(), "rank 1, epoch 3, layer 0: halos in flight");
}

TEST(RankWatch, TheErrorBehindAnAbortSetsTheCodeOfAll) {
  Watches watches(2);
  watches[1].fail({3, 0}, ErrorCode::peer_lost, "the run ended with halos in flight");
  EXPECT_TRUE(watches[0].wait_for_failure(5));
  watches[1].fail_by_exception({3, 0}, ErrorCode::numeric, "NaN in the loss");
  watches.end(1);
  EXPECT_FALSE(watches[0].must_report());
  EXPECT_EQ(watches[0].failure_code(), ErrorCode::numeric);
}

TEST(RankWatch, OfRanksThatMeetTheSameFailureTheLowestReports) {
  Watches watches(3);
  watches.each([](RankWatch& watch, int) {
    watch.fail_by_exception({0, -1}, ErrorCode::numeric, "the loss is NaN");
  });
  watches.each([](RankWatch& watch, int rank) {
    EXPECT_EQ(watch.must_report(), rank == 0) << rank;
    EXPECT_EQ(watch.failure_code(), ErrorCode::numeric);
  });
}

TEST(RankWatch, AnEchoDoesNotHideTheCause) {
  Watches watches(2);
  watches[0].fail({1, -1}, ErrorCode::peer_lost, "enough");
  const auto echo = error_of([&] { watches[0].throw_if_failed(); });
  watches[0].fail_by_exception({2, -1}, echo.code, "again: " + echo.text);
  EXPECT_EQ(watches[0].failure_text(), "rank 0, epoch 1: enough");
  watches[0].fail_by_exception({2, -1}, ErrorCode::resource, "out of memory");
  EXPECT_EQ(watches[0].failure_text(), "rank 0, epoch 2: out of memory");
  EXPECT_EQ(watches[0].failure_code(), ErrorCode::resource);
}

TEST(RankWatch, SilenceIsNoticedByThePhaseOfWhoIsSilent) {
  // The other rank has a connection and never says anything on it.
  SilenceLimits limits;
  limits.loading = 0.3;
  limits.training = 60;
  RankWatch watch(0, 2, limits);
  const std::vector<Introduction> all(2, introduce_process());
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const Socket silent(pair[1]);
  std::vector<Socket> sockets(2);
  sockets[1] = Socket(pair[0]);
  const double began = monotonic_seconds();
  watch.start(std::move(sockets), all);
  EXPECT_TRUE(watch.wait_for_failure(limits.training / 2));
  EXPECT_GE(monotonic_seconds() - began, limits.loading);
  EXPECT_NE(watch.failure_text().find("while loading: no sign of life for 0."), std::string::npos)
      << watch.failure_text();
}

TEST(RankWatch, SignsOfLifePreventALoss) {
  Watches watches(3, {1, 1, 1});
  EXPECT_FALSE(watches[0].wait_for_failure(3));
  EXPECT_FALSE(watches[2].failed());
}

TEST(RankWatch, AfterAGoodbyeAnEndIsNoLoss) {
  Watches watches(3);
  watches.each([](RankWatch& watch, int rank) {
    if (rank == 2) sleep_for(0.1);
    watch.say_goodbye();
  });
  watches.end(1);
  EXPECT_FALSE(watches[0].wait_for_failure(0.3));
}

TEST(RankWatch, AGoodbyeEndsWithTheLossOfARank) {
  Watches watches(3);
  std::thread later([&] {
    sleep_for(0.1);
    watches.end(2);
  });
  std::array<test::Caught, 2> caught;
  std::thread first([&] { caught[0] = error_of([&] { watches[0].say_goodbye(); }); });
  caught[1] = error_of([&] { watches[1].say_goodbye(); });
  first.join();
  later.join();
  for (const auto& one : caught) EXPECT_EQ(one.text.find("rank 2 was lost"), 0U) << one.text;
}

TEST(RankWatch, SurvivorsOfALossLeaveTogether) {
  Watches watches(4);
  watches.end(2);
  watches.each([](RankWatch& watch, int) {
    EXPECT_TRUE(watch.wait_for_failure(5));
    EXPECT_TRUE(watch.lost());
  });
  constexpr double kDeadline = 20;
  const double began = monotonic_seconds();
  std::array<double, 4> left{};
  watches.each([&](RankWatch& watch, int rank) {
    if (rank == 1) sleep_for(0.4);
    watch.leave_together(kDeadline);
    left[static_cast<std::size_t>(rank)] = monotonic_seconds() - began;
  });
  for (const std::size_t rank : {0U, 1U, 3U}) {
    EXPECT_GE(left[rank], 0.39) << rank;
    EXPECT_LT(left[rank], kDeadline / 2) << rank;
  }
}

TEST(RankWatch, NobodyWaitsForALateSurvivorForEver) {
  Watches watches(3);
  watches.end(2);
  EXPECT_TRUE(watches[0].wait_for_failure(5));
  const double began = monotonic_seconds();
  watches[0].leave_together(0.3);  // Rank 1 never says that it leaves.
  EXPECT_GE(monotonic_seconds() - began, 0.29);
  EXPECT_LT(monotonic_seconds() - began, SilenceLimits{}.loading / 2);
}

TEST(RankWatch, RefusesLimitsOutOfRange) {
  test::expect_error(ErrorCode::usage, "", [] { RankWatch(0, 2, {0, 1, 1}); });
  test::expect_error(ErrorCode::usage, "", [] { RankWatch(0, 2, {1, -1, 1}); });
}

TEST(WatchFrame, IsReadFromPiecesOfAnySize) {
  WatchFrame frame;
  frame.kind = WatchFrame::Kind::failed;
  frame.phase = RunPhase::saving;
  frame.rank = 3;
  frame.progress = {12, 1};
  frame.code = ErrorCode::resource;
  frame.text = "the disk is full";
  std::vector<std::byte> bytes = encode_frame(frame);
  const std::vector<std::byte> second = encode_frame({});
  bytes.insert(bytes.end(), second.begin(), second.end());
  for (const std::size_t step : {1, 5, 24, 100}) {
    WatchFrameReader reader;
    std::vector<WatchFrame> read;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      reader.append(bytes.data() + at, std::min(step, bytes.size() - at));
      while (auto next = reader.next()) read.push_back(std::move(*next));
    }
    ASSERT_EQ(read.size(), 2U);
    EXPECT_EQ(read[0].kind, WatchFrame::Kind::failed);
    EXPECT_EQ(read[0].phase, RunPhase::saving);
    EXPECT_EQ(read[0].rank, 3);
    EXPECT_EQ(read[0].progress.epoch, 12);
    EXPECT_EQ(read[0].progress.layer, 1);
    EXPECT_EQ(read[0].code, ErrorCode::resource);
    EXPECT_EQ(read[0].text, "the disk is full");
    EXPECT_EQ(read[1].kind, WatchFrame::Kind::alive);
  }
}

TEST(WatchFrame, LongTextsAreCutAndNoiseIsRefused) {
  WatchFrame frame;
  frame.text.assign(100'000, 'x');
  const auto bytes = encode_frame(frame);
  WatchFrameReader reader;
  reader.append(bytes.data(), bytes.size());
  EXPECT_EQ(reader.next()->text.size(), kWatchTextBytes);
  const std::vector<std::byte> noise(64, std::byte{0x41});
  WatchFrameReader other;
  other.append(noise.data(), noise.size());
  test::expect_error(ErrorCode::peer_lost, "", [&] { other.next(); });
  frame.code = ErrorCode{0};  // Would end a process as if it had succeeded.
  WatchFrameReader third;
  const auto success = encode_frame(frame);
  third.append(success.data(), success.size());
  test::expect_error(ErrorCode::peer_lost, "", [&] { third.next(); });
}

/// Environment variables that last as long as a test.
class Environment {
 public:
  Environment() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  ~Environment() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  void set(const char* name, const char* value) { ::setenv(name, value, 1); }

 private:
  static constexpr std::array kNames{
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
      "SLURM_STEP_NUM_TASKS"};
};

TEST(Launcher, IsRecognisedByItsEnvironment) {
  if (::getenv("OMPI_COMM_WORLD_RANK") != nullptr) GTEST_SKIP() << "under mpirun";
  Environment environment;
  EXPECT_FALSE(launched_by_mpi());
  environment.set("PMIX_RANK", "2");
  ASSERT_TRUE(launched_by_mpi());
  EXPECT_EQ(launched_by_mpi()->rank, 2);
  EXPECT_FALSE(launched_by_mpi()->processes);
  environment.set("PMI_RANK", "3");
  environment.set("PMI_SIZE", "8");
  EXPECT_EQ(launched_by_mpi()->rank, 3);
  EXPECT_EQ(launched_by_mpi()->processes, 8);
  environment.set("OMPI_COMM_WORLD_RANK", "0");
  environment.set("OMPI_COMM_WORLD_SIZE", "1");
  EXPECT_EQ(launched_by_mpi()->rank, 0);
  EXPECT_EQ(launched_by_mpi()->processes, 1);
  environment.set("OMPI_COMM_WORLD_RANK", "no number");
  EXPECT_EQ(launched_by_mpi()->rank, 3);
}

}  // namespace
}  // namespace heliograph
