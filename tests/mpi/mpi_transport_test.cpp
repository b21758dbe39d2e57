// Every process that mpirun starts runs every test. Tests named Fault* end MPI for their process,
// so test_mpi.py starts mpirun for each of them.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "comm/arrives_unattended.hpp"
#include "comm/clock.hpp"
#include "comm/mpi/transport.hpp"
#include "comm/process_faults.hpp"
#include "comm/processes/launcher.hpp"
#include "comm/transport_epochs.hpp"
#include "comm/transport_rounds.hpp"
#include "heliograph/train.hpp"
#include "support/allocations.hpp"
#include "support/expect_error.hpp"
#include "support/faulty_communicator.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

namespace {

/// How often this process has probed MPI for messages, and how often the probing thread slept.
std::atomic<std::int64_t> looks{0}, sleeps{0};

void note_look() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  ++looks;
  sleeps = usage.ru_nvcsw;
}

}  // namespace

// These definitions replace MPI's functions, which go on under names that begin with P.
extern "C" {
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  note_look();
  return PMPI_Iprobe(source, tag, comm, flag, status);
}
int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[],
                 MPI_Status statuses[]) {
  note_look();
  return PMPI_Testsome(count, requests, done, indices, statuses);
}
}

namespace heliograph {
namespace {

/// Makes a group, runs `body` in it and leaves it.
void run_mpi_rank(const MpiTransportOptions& options,
                  const std::function<void(Communicator&)>& body) {
  MpiGroup group(options);
  group.run(body);
  group.leave();
}

using test::error_of;

MpiTransportOptions with_pieces(std::size_t bytes) {
  MpiTransportOptions options;
  options.piece_bytes = bytes;
  return options;
}

/// Messages in one piece, in a few pieces, and in more pieces than may travel at once.
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
    test::expect_error(ErrorCode::usage, "", [&] { comm.wait(Ticket{1}); });
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
    EXPECT_TRUE(test::arrives_unattended(comm, ticket));
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
    const std::int64_t looked = looks, slept = sleeps;
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    barrier(comm, Channel::weights);
    // The first looks after a message only yield.
    EXPECT_GT(sleeps - slept, (looks - looked) / 10);
  });
}

TEST(Mpi, TheSteadyStateAllocatesNothing) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  run_mpi_rank({}, [](Communicator& comm) {
    test::TransportEpochs epochs(comm);
    epochs.run(20);
    // MPI itself allocates now and then.
    EXPECT_LT(test::allocations_of_rounds(comm, epochs, 100), 50);
    barrier(comm, Channel::evaluation);
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
    if (results[0].epochs.empty()) continue;  // Only rank 0 has the results.
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
  test::expect_error(ErrorCode::usage, "each process is one rank",
                     [&] { train(dataset, options); });
  group.leave();
}

/// Fails the test unless `work` throws an Error with this text, whose code is `code` on the rank
/// `cause`. Prints "as expected", which test_mpi.py counts. Returns when all ranks have done so,
/// because mpirun kills the others once one has ended without MPI_Finalize.
void expect_failure_of(const MpiTransportOptions& options,
                       const std::function<void(MpiGroup&)>& work, int cause, ErrorCode code,
                       const std::string& text) {
  std::optional<MpiGroup> group;  // Lives on until all have heard why.
  const auto caught = error_of([&] {
    group.emplace(options);  // Another rank may fail before this one has met all.
    work(*group);
  });
  const auto launched = launched_by_mpi();
  EXPECT_EQ(caught.code, launched->rank == cause ? code : ErrorCode::peer_lost);
  EXPECT_NE(caught.text.find(text), std::string::npos) << caught.text;
  if (!::testing::Test::HasFailure()) std::printf("as expected\n");
  std::fflush(stdout);
  const std::filesystem::path folder = std::getenv("HELIOGRAPH_TEST_MET");
  std::ofstream(folder / std::to_string(launched->rank));
  const auto here = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  for (const double end = monotonic_seconds() + 30;
       here() < *launched->processes && monotonic_seconds() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// `expect_failure_of` for what each rank does.
void expect_failure(const MpiTransportOptions& options,
                    const std::function<void(Communicator&)>& body, int cause, ErrorCode code,
                    const std::string& text) {
  expect_failure_of(
      options, [&](MpiGroup& group) { group.run(body); }, cause, code, text);
}

TEST(FaultSizes, ThatDisagreeNameRanksChannelAndSizes) {
  expect_failure(
      {},
      [&](Communicator& comm) {
        std::array<std::byte, 12> buffer{};
        const SendMessage send{1, buffer.data(), 12};
        const RecvMessage receive{0, buffer.data(), 8};
        if (comm.rank() == 0) comm.wait(comm.post(Channel::weights, {&send, 1}, {}));
        if (comm.rank() == 1) comm.wait(comm.post(Channel::weights, {}, {&receive, 1}));
        barrier(comm, Channel::halo);
      },
      -1, {}, "rank 1: rank 0 sends 12 bytes on the weights channel, rank 1 expects 8");
}

TEST(FaultLargeSizes, ThatDisagreeNameTheSizesToo) {
  std::vector<std::byte> buffer(500'000);
  expect_failure(
      with_pieces(1000),
      [&](Communicator& comm) {
        const SendMessage send{1, buffer.data(), 300'000};
        const RecvMessage receive{0, buffer.data(), 500'000};
        if (comm.rank() == 0) comm.wait(comm.post(Channel::halo, {&send, 1}, {}));
        if (comm.rank() == 1) comm.wait(comm.post(Channel::halo, {}, {&receive, 1}));
        barrier(comm, Channel::weights);
      },
      -1, {}, "rank 0 sends 300000 bytes on the halo channel, rank 1 expects 500000");
}

void expect_fault(const test::ProcessFault& fault) {
  expect_failure({}, fault.body, fault.cause, fault.code, fault.text);
}

TEST(FaultException, KeepsItsCodeWhereItAroseAndNamesItsRankEverywhere) {
  expect_fault(test::kException);
}

TEST(FaultUnwinding, TellsTheExceptionAndNotWhatItCausesOnItsWay) {
  expect_fault(test::kUnwinding);
}

TEST(FaultAbort, EndsTheWaitsOfAllRanks) { expect_fault(test::kAbort); }

TEST(FaultDeadline, NamesWhoWaitedForWhomAndWhere) {
  MpiTransportOptions options;
  options.timeout_seconds = 2;
  expect_failure(options, test::wait_in_vain, -1, {}, test::waited_in_vain("2"));
}

TEST(FaultInFlight, EndingWithMessagesInFlightIsAnError) { expect_fault(test::kInFlight); }

TEST(FaultCallback, ItsExceptionIsWhatTheOtherRanksReport) {
  const Dataset dataset = test::make_small_dataset(120, 12, 3, 5);
  TrainCallbacks callbacks;
  callbacks.on_epoch = [](const EpochReport& report) {
    if (report.epoch == 2) throw Error(ErrorCode::numeric, "a callback's own error");
    return EpochAction::proceed;
  };
  const auto work = [&](const MpiGroup& group) {
    TrainOptions options = test::small_options(group.ranks(), 6);
    options.transport.kind = TransportKind::mpi;
    options.exchange.staleness = 1;  // Halos are in flight while the callback runs.
    train(dataset, options, callbacks);
  };
  expect_failure_of({}, work, 0, ErrorCode::numeric, "a callback's own error");
}

}  // namespace
}  // namespace heliograph
