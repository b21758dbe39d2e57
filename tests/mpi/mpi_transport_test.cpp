// Started by mpirun: every process runs every test. Tests named Fault* end MPI for their process,
// so each has an mpirun of its own (test_mpi.py).
#include "comm/mpi_transport.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "comm/transport_epochs.hpp"
#include "comm/transport_error.hpp"
#include "comm/transport_rounds.hpp"
#include "heliograph/train.hpp"
#include "support/allocations.hpp"
#include "support/faulty_communicator.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

namespace heliograph {
namespace {

using test::error_of;

MpiTransportOptions with_pieces(std::size_t bytes) {
  MpiTransportOptions options;
  options.piece_bytes = bytes;
  return options;
}

/// Whole messages, messages in a few pieces, and more pieces than may be under way.
class MpiMessages : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(PieceBytes, MpiMessages, ::testing::Values(4 << 20, 50'000, 1000),
                         testing::PrintToStringParamName());

TEST_P(MpiMessages, ArriveInOrderAndWhole) {
  std::atomic<int> wrong = 0;
  run_mpi_rank(with_pieces(GetParam()),
               [&](Communicator& comm) { test::exchange_rounds(comm, 20, wrong); });
  EXPECT_EQ(wrong, 0);
}

TEST_P(MpiMessages, ArriveWhenDelayedAndReordered) {
  std::atomic<int> wrong = 0;
  run_mpi_rank(with_pieces(GetParam()), [&](Communicator& inner) {
    test::Faults faults;
    faults.delay_us = 200;
    faults.reorder = true;
    test::FaultyCommunicator comm(inner, faults);
    test::exchange_rounds(comm, 5, wrong);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Mpi, EmptyBatchIsDoneAtOnce) {
  run_mpi_rank({}, [](Communicator& comm) {
    const SendMessage nothing{(comm.rank() + 1) % comm.size(), nullptr, 0};
    EXPECT_TRUE(comm.done(comm.post(Channel::halo, {&nothing, 1}, {})));
    EXPECT_TRUE(comm.done(Ticket{}));
    EXPECT_EQ(comm.bytes_sent(Channel::halo), 0);
  });
}

TEST(Mpi, RefusesBatchesAndTicketsThatBreakTheRules) {
  run_mpi_rank({}, [](Communicator& comm) {
    std::byte buffer{};
    const int peer = (comm.rank() + 1) % comm.size();
    const auto refused = [&](std::vector<SendMessage> sends) {
      return error_of([&] { comm.post(Channel::halo, sends, {}); });
    };
    EXPECT_EQ(refused({{comm.rank(), &buffer, 1}}).code, ErrorCode::usage);
    EXPECT_EQ(refused({{comm.size(), &buffer, 1}}).code, ErrorCode::usage);
    EXPECT_EQ(refused({{peer, nullptr, 1}}).code, ErrorCode::usage);
    const auto twice = refused({{peer, &buffer, 1}, {peer, &buffer, 1}});
    EXPECT_NE(twice.text.find("is there twice in one batch"), std::string::npos) << twice.text;
    EXPECT_EQ(error_of([&] { comm.wait(Ticket{1}); }).code, ErrorCode::usage);
  });
}

TEST(Mpi, BytesTravelWhileTheRankDoesSomethingElse) {
  run_mpi_rank({}, [](Communicator& comm) {
    constexpr std::size_t kBytes = 1'000'000;
    const auto peers = static_cast<std::size_t>(comm.size());
    std::vector<std::byte> out(kBytes, static_cast<std::byte>(comm.rank() + 1));
    std::vector<std::byte> in(kBytes * peers);
    std::vector<SendMessage> sends;
    std::vector<RecvMessage> receives;
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer == comm.rank()) continue;
      receives.push_back({peer, in.data() + sends.size() * kBytes, kBytes});
      sends.push_back({peer, out.data(), kBytes});
    }
    barrier(comm, Channel::evaluation);
    const Ticket ticket = comm.post(Channel::halo, sends, receives);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_TRUE(comm.done(ticket));
    comm.wait(ticket);
    for (const RecvMessage& message : receives) {
      EXPECT_EQ(message.data[kBytes - 1], static_cast<std::byte>(message.peer + 1));
    }
    barrier(comm, Channel::evaluation);
  });
}

TEST(Mpi, WaitsAsleep) {
  run_mpi_rank({}, [](Communicator& comm) {
    barrier(comm, Channel::weights);
    const auto cpu_seconds = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const double before = cpu_seconds();
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    barrier(comm, Channel::weights);
    EXPECT_LT(cpu_seconds() - before, 0.3);
  });
}

TEST(Mpi, TheSteadyStateAllocatesNothing) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  run_mpi_rank({}, [](Communicator& comm) {
    test::TransportEpochs epochs(comm);
    epochs.run(20);
    const std::int64_t before = test::allocations();
    barrier(comm, Channel::evaluation);
    epochs.run(30);
    // The watch's signs of life, a few a second, and what MPI itself keeps are no part of a step.
    const std::int64_t made = test::allocations() - before;
    EXPECT_LT(made, 30);
  });
}

TEST(Mpi, TheLibraryTrainsAsWithThreadsTwiceInOneProcess) {
  const Dataset dataset = test::make_small_dataset(120, 12, 3, 5);
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::array<TrainResult, 2> results;
    const ProcessGroup* const none = ProcessGroup::current();
    EXPECT_EQ(none, nullptr);
    int ranks = 0;
    run_mpi_rank({}, [&](Communicator& comm) { ranks = comm.size(); });
    TrainOptions options = test::small_options(ranks, 4);
    options.transport.kind = TransportKind::mpi;
    results[0] = train(dataset, options);
    options.transport.kind = TransportKind::threads;
    results[1] = train(dataset, options);
    if (results[0].epochs.empty()) continue;  // Rank 0 alone has the results.
    ASSERT_EQ(results[0].epochs.size(), results[1].epochs.size());
    for (std::size_t e = 0; e < results[0].epochs.size(); ++e) {
      EXPECT_EQ(results[0].epochs[e].loss, results[1].epochs[e].loss);
    }
    EXPECT_EQ(results[0].predictions, results[1].predictions);
    EXPECT_EQ(results[0].bytes_per_epoch.total(), results[1].bytes_per_epoch.total());
  }
}

TEST(Mpi, OtherNumbersOfPartsAreRefused) {
  int ranks = 0;
  run_mpi_rank({}, [&](Communicator& comm) { ranks = comm.size(); });
  const Dataset dataset = test::make_small_dataset(120, 12, 3, 5);
  TrainOptions options = test::small_options(ranks + 1, 2);
  MpiGroup group({});
  options.transport.kind = TransportKind::mpi;
  const auto caught = error_of([&] { train(dataset, options); });
  EXPECT_EQ(caught.code, ErrorCode::usage);
  EXPECT_NE(caught.text.find("each process is one rank"), std::string::npos) << caught.text;
  group.leave();
}

/// Says that this process has seen what it should: test_mpi.py counts these lines.
void saw(const test::Caught& caught, ErrorCode code, const std::string& text) {
  EXPECT_EQ(caught.code, code);
  EXPECT_NE(caught.text.find(text), std::string::npos) << caught.text;
  if (!::testing::Test::HasFailure()) std::printf("as expected\n");
  std::fflush(stdout);
  // mpirun kills the others once one has ended without MPI_Finalize.
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

TEST(FaultSizes, ThatDisagreeNameRanksChannelAndSizes) {
  MpiGroup group({});
  const auto caught = error_of([&] {
    group.run([&](Communicator& comm) {
      std::array<std::byte, 12> buffer{};
      const SendMessage send{1, buffer.data(), 12};
      const RecvMessage receive{0, buffer.data(), 8};
      if (comm.rank() == 0) comm.wait(comm.post(Channel::weights, {&send, 1}, {}));
      if (comm.rank() == 1) comm.wait(comm.post(Channel::weights, {}, {&receive, 1}));
      barrier(comm, Channel::halo);
    });
  });
  saw(caught, ErrorCode::peer_lost,
      "rank 1: rank 0 sends 12 bytes on the weights channel, rank 1 expects 8");
}

TEST(FaultLargeSizes, ThatDisagreeNameTheSizesToo) {
  MpiGroup group(with_pieces(1000));
  std::vector<std::byte> buffer(500'000);
  const auto caught = error_of([&] {
    group.run([&](Communicator& comm) {
      const SendMessage send{1, buffer.data(), 300'000};
      const RecvMessage receive{0, buffer.data(), 500'000};
      if (comm.rank() == 0) comm.wait(comm.post(Channel::halo, {&send, 1}, {}));
      if (comm.rank() == 1) comm.wait(comm.post(Channel::halo, {}, {&receive, 1}));
      barrier(comm, Channel::weights);
    });
  });
  saw(caught, ErrorCode::peer_lost,
      "rank 0 sends 300000 bytes on the halo channel, rank 1 expects "
      "500000");
}

TEST(FaultException, KeepsItsCodeWhereItAroseAndNamesItsRankEverywhere) {
  MpiGroup group({});
  const auto caught = error_of([&] {
    group.run([](Communicator& comm) {
      comm.set_progress({3, 1});
      if (comm.rank() == 1) throw Error(ErrorCode::numeric, "NaN in the gradient");
      barrier(comm, Channel::halo);
    });
  });
  saw(caught, group.rank() == 1 ? ErrorCode::numeric : ErrorCode::peer_lost,
      "rank 1, epoch 3, layer 1: NaN in the gradient");
}

TEST(FaultAbort, EndsTheWaitsOfAllRanks) {
  MpiGroup group({});
  const auto caught = error_of([&] {
    group.run([](Communicator& comm) {
      if (comm.rank() == 0) {
        std::thread other([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          comm.abort("told from outside");
        });
        other.join();
      }
      barrier(comm, Channel::halo);
    });
  });
  saw(caught, ErrorCode::peer_lost, "rank 0: told from outside");
}

TEST(FaultDeadline, NamesWhoWaitedForWhomAndWhere) {
  MpiTransportOptions options;
  options.timeout_seconds = 0.3;
  MpiGroup group(options);
  const auto caught = error_of([&] {
    group.run([](Communicator& comm) {
      comm.set_progress({4, 2});
      std::byte buffer{};
      const RecvMessage receive{0, &buffer, 1};
      if (comm.rank() == 1) comm.wait(comm.post(Channel::weights, {}, {&receive, 1}));
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      barrier(comm, Channel::halo);
    });
  });
  saw(caught, ErrorCode::peer_lost,
      "rank 1, epoch 4, layer 2: waited 0.3 s without progress for bytes from rank 0 on the "
      "weights channel");
}

TEST(FaultInFlight, EndingWithMessagesInFlightIsAnError) {
  MpiGroup group({});
  std::byte buffer{};
  const auto caught = error_of([&] {
    group.run([&](Communicator& comm) {
      const RecvMessage receive{1, &buffer, 1};
      if (comm.rank() == 0) comm.post(Channel::halo, {}, {&receive, 1});
      if (comm.rank() != 0) barrier(comm, Channel::weights);
    });
  });
  saw(caught, group.rank() == 0 ? ErrorCode::usage : ErrorCode::peer_lost,
      "rank 0: the rank has ended with messages in flight");
}

}  // namespace
}  // namespace heliograph
