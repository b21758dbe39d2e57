// Callers that do not belong to the run: they neither get in, nor end a run, nor hold it up.
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "comm/clock.hpp"
#include "comm/collectives.hpp"
#include "comm/rendezvous/rendezvous.hpp"
#include "comm/sleep_for.hpp"
#include "comm/tcp_groups.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using Kind = HandshakeHeader::Kind;
using test::call_here;
using test::Caught;
using test::expect_none;
using test::free_port;
using test::meet;
using test::on_threads;
using test::patient;
using test::sleep_for;
using test::tcp_options;
using test::within;

constexpr const char* kSecret = "the secret of these ranks";

TcpTransportOptions keyed(int rank, int ranks, std::uint16_t port, const char* key = kSecret) {
  TcpTransportOptions options = tcp_options(rank, ranks, port);
  options.launch.key = RunKey(key);
  return options;
}

/// A caller that follows the protocol as far as a test wants it to.
class HandCaller {
 public:
  explicit HandCaller(const LaunchVariables& launch)
      : launch_(launch), connection_(call_here(launch.port)) {
    handshake.caller = random_bytes();
  }

  void call() {
    handshake.call = header(Kind::call);
    handshake.call.bytes = sizeof(handshake.caller);
    connection_.send(handshake.call, handshake.caller);
  }
  void send_proof(const ProofBytes& proof) { connection_.send(header(Kind::proof), proof); }
  void send_bytes(std::span<const std::byte> bytes) const {
    [[maybe_unused]] const ssize_t sent =
        send(connection_.socket().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// The kind of the next message; nothing if the connection ends first.
  std::optional<Kind> receive() {
    while (!connection_.ended()) {
      pollfd entry = connection_.entry();
      if (poll(&entry, 1, 20000) != 1) break;
      if (connection_.receive(kMostTextBytes)) return connection_.header().kind;
    }
    return std::nullopt;
  }
  /// Calls and takes the challenge.
  void begin() {
    call();
    EXPECT_EQ(receive(), Kind::challenge);
    EXPECT_TRUE(connection_.copy_payload(handshake.listener));
  }
  const Connection& connection() const { return connection_; }

  Handshake handshake;

 private:
  HandshakeHeader header(Kind kind) const {
    HandshakeHeader header;
    header.kind = kind;
    header.run = launch_.run_id();
    header.ranks = launch_.ranks;
    header.from = 1;
    header.to = 0;
    return header;
  }

  const LaunchVariables launch_;
  Connection connection_;
};

/// Runs `strangers` against rank 0 of two ranks, then lets rank 1 come. Both must meet.
void expect_no_effect(const std::function<void(const LaunchVariables&)>& strangers) {
  const std::uint16_t port = free_port();
  expect_none(on_threads(2, [&](int rank) {
    const TcpTransportOptions options = patient(keyed(rank, 2, port));
    if (rank == 1) strangers(options.launch);
    meet(options);
  }));
}

TEST(Strangers, WhoKnowsTheKeyIsAnsweredWithAProof) {
  expect_no_effect([](const LaunchVariables& launch) {
    HandCaller caller(launch);
    caller.begin();
    caller.send_proof(caller.handshake.proof_of(Handshake::Side::caller, launch.key));
    ASSERT_EQ(caller.receive(), Kind::answer);
    EXPECT_TRUE(caller.handshake.proves(caller.connection().payload(), Handshake::Side::listener,
                                        launch.key));
  });
}

TEST(Strangers, WhoHasBeenAnsweredIsToldWhyRankZeroEnds) {
  const std::uint16_t port = free_port();
  std::atomic<bool> answered{false};
  const auto caught = on_threads(2, [&](int rank) {
    TcpTransportOptions options = patient(keyed(rank, 2, port));
    if (rank == 0) {
      options.check = [&answered] {
        if (answered) throw Error(ErrorCode::interrupted, "ended by hand");
      };
      return meet(options);
    }
    HandCaller caller(options.launch);
    caller.begin();
    caller.send_proof(caller.handshake.proof_of(Handshake::Side::caller, options.launch.key));
    EXPECT_EQ(caller.receive(), Kind::answer);
    answered = true;
    EXPECT_EQ(caller.receive(), Kind::stopped);
    EXPECT_EQ(caller.connection().text(), "rank 0: ended by hand");
  });
  EXPECT_EQ(caught[0].code, ErrorCode::interrupted);
}

TEST(Strangers, AWrongKeyAReplayAndAReflectionAreRefused) {
  expect_no_effect([](const LaunchVariables& launch) {
    const auto expect_refused = [&](HandCaller& caller, const ProofBytes& proof) {
      caller.send_proof(proof);
      ASSERT_EQ(caller.receive(), Kind::refused);
      EXPECT_EQ(caller.connection().text(),
                "its HELIOGRAPH_RUN_KEY is not that of rank 0, and all ranks of a run need the "
                "same");
    };
    for (const char* key : {"", "the secret of those ranks"}) {
      HandCaller wrong(launch);
      wrong.begin();
      expect_refused(wrong, wrong.handshake.proof_of(Handshake::Side::caller, RunKey(key)));
    }
    // What a rank has sent is sent again, byte for byte.
    HandCaller rank(launch);
    rank.begin();
    const ProofBytes proof = rank.handshake.proof_of(Handshake::Side::caller, launch.key);
    HandCaller replay(launch);
    replay.handshake.caller = rank.handshake.caller;
    replay.begin();
    expect_refused(replay, proof);

    HandCaller reflection(launch);
    reflection.begin();
    expect_refused(reflection,
                   reflection.handshake.proof_of(Handshake::Side::listener, launch.key));
  });
}

TEST(Strangers, WhoEndsWithinAMessageHoldsUpNobody) {
  expect_no_effect([](const LaunchVariables& launch) {
    HandCaller whole(launch);
    whole.begin();
    std::vector<std::byte> bytes(sizeof(HandshakeHeader) + sizeof(ProofBytes));
    std::memcpy(bytes.data(), &whole.handshake.call, sizeof(HandshakeHeader));
    for (std::size_t size = 0; size < bytes.size(); size += 5) {
      HandCaller(launch).send_bytes(std::span(bytes).first(size));
    }
    for (const std::size_t size : {1, 47, 50, 79}) {
      HandCaller caller(launch);
      caller.begin();
      caller.send_bytes(std::span(bytes).first(size));
    }
    // A payload that is too large, and one that is too small.
    for (const std::uint32_t claimed : {31U, 65U, 4000000000U}) {
      HandCaller caller(launch);
      HandshakeHeader header = whole.handshake.call;
      header.bytes = claimed;
      caller.send_bytes(std::as_bytes(std::span(&header, 1)));
      caller.send_bytes(std::vector<std::byte>(64));
      EXPECT_EQ(caller.receive(), std::nullopt);
    }
  });
}

TEST(Strangers, WhoSendsAByteNowAndThenIsDroppedSoon) {
  expect_no_effect([](const LaunchVariables& launch) {
    HandCaller slow(launch);
    HandCaller slower(launch);
    slower.begin();
    const double began = monotonic_seconds();
    const std::byte byte{'H'};
    pollfd entry = slow.connection().entry();
    while (poll(&entry, 1, 100) == 0) {
      slow.send_bytes(std::span(&byte, 1));
      slower.send_bytes(std::span(&byte, 1));
      ASSERT_LT(monotonic_seconds() - began, 30) << "it is never dropped";
    }
    EXPECT_EQ(slower.receive(), std::nullopt);
  });
}

TEST(Strangers, RanksWithoutTheKeyAreToldSoAndNamed) {
  for (const char* key : {"", "another secret"}) {
    const std::uint16_t port = free_port();
    const auto caught = on_threads(
        3, [&](int rank) { meet(within(1, keyed(rank, 3, port, rank == 2 ? key : kSecret))); });
    test::expect_error(ErrorCode::usage,
                       {"rank 0 at localhost:" + std::to_string(port) + " refuses rank 2",
                        "its HELIOGRAPH_RUN_KEY is not that of rank 0"},
                       caught[2]);
    for (const int rank : {0, 1}) {
      test::expect_error(ErrorCode::peer_lost,
                         {"rank 2 has not called rank 0", "was refused: its HELIOGRAPH_RUN_KEY"},
                         caught[static_cast<std::size_t>(rank)]);
    }
  }
}

TEST(Strangers, WhoListensInPlaceOfRankZeroWithoutTheKeyIsNotBelieved) {
  const std::uint16_t port = free_port();
  const Socket listener = listen_on(port, InternetAddress::loopback());
  const auto caught = on_threads(2, [&](int thread) {
    TcpTransportOptions options = within(1, keyed(1, 2, port));
    options.launch.address = "127.0.0.1";
    if (thread == 1) return meet(options);
    pollfd entry{listener.get(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 20000), 1);
    Connection connection(accept_call(listener));
    const auto receive = [&] {
      pollfd waits = connection.entry();
      return poll(&waits, 1, 20000) == 1 && connection.receive(kMostTextBytes);
    };
    ASSERT_TRUE(receive());
    HandshakeHeader header = connection.header();
    header.kind = Kind::challenge;
    connection.send(header, random_bytes());
    ASSERT_TRUE(receive());
    EXPECT_EQ(connection.header().kind, Kind::proof);
    header.kind = Kind::answer;
    connection.send(header, random_bytes());
    EXPECT_FALSE(receive()) << "rank 1 introduced itself";
  });
  test::expect_error(ErrorCode::peer_lost, "did not meet rank 0", caught[1]);
}

/// The same, where torchrun listens at `port` itself and rank 0 at one of the ports after it.
TcpTransportOptions beside_torchrun(TcpTransportOptions options) {
  options.launch.port_is_taken = true;
  return options;
}

TEST(Strangers, ARankThatRankZeroRefusesAtOneOfSeveralPortsEndsLongBeforeItsDeadline) {
  const std::uint16_t port = free_port();
  std::atomic<bool> refused{false};
  const auto caught = on_threads(2, [&](int rank) {
    TcpTransportOptions options = beside_torchrun(keyed(rank, 2, port, rank == 1 ? "" : kSecret));
    options.check = [&] {
      if (rank == 0 && refused) throw Error(ErrorCode::interrupted, "rank 1 has ended");
    };
    if (rank == 0) return meet(options);
    const Caught end = test::error_of([&] { meet(patient(options)); });
    refused = true;
    test::expect_error(ErrorCode::usage, "refuses rank 1: its HELIOGRAPH_RUN_KEY", end);
  });
  test::expect_error(ErrorCode::interrupted, "rank 1 has ended", caught[0]);
}

TEST(Strangers, WhoRefusesAtOneOfSeveralPortsDoesNotKeepARankFromRankZero) {
  const std::uint16_t port = free_port();
  const Socket listener = listen_on(static_cast<std::uint16_t>(port + 1));
  ASSERT_TRUE(listener.open());
  std::atomic<int> refusals{0};
  std::atomic<bool> met{false};
  std::thread stranger([&] {
    while (!met) {
      pollfd entry{listener.get(), POLLIN, 0};
      if (poll(&entry, 1, 50) != 1) continue;
      Connection connection(accept_call(listener));
      pollfd waits = connection.entry();
      if (poll(&waits, 1, 1000) != 1 || !connection.receive(kMostTextBytes)) continue;
      HandshakeHeader header = connection.header();
      header.kind = Kind::refused;
      if (connection.send(header, payload_of("go away"))) ++refusals;
    }
  });
  expect_none(on_threads(2, [&](int rank) {
    if (rank == 0) sleep_for(1);
    meet(beside_torchrun(patient(keyed(rank, 2, port))));
  }));
  met = true;
  stranger.join();
  EXPECT_GT(refusals, 1);
}

/// Lowers the number of descriptors that this process may open, while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{most, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// Another process, in which `body` runs until this object is destroyed.
class OtherProcess {
 public:
  template <class Body>
  explicit OtherProcess(const Body& body) : process_(fork()) {
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~OtherProcess() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  /// Waits for the end of `body`.
  void wait() {
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_;
};

/// Connects to the port of this host in few calls; closed if nobody listens there.
Socket connect_here(std::uint16_t port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // It ends by a reset, so that its port is free again at once.
  const linger at_once{1, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) socket.close();
  return socket;
}

/// Calls a port again and again, and keeps the last 300 connections. Every second one sends what a
/// rank would, and every fourth a proof as well, but it knows no key.
void flood(const LaunchVariables& launch, int calls) {
  struct Words {
    HandshakeHeader header;
    ProofBytes bytes{};
  };
  std::array<Words, 2> words;
  for (Words& one : words) {
    one.header.run = launch.run_id();
    one.header.ranks = launch.ranks;
    one.header.from = 1;
    one.header.to = 0;
    one.header.bytes = sizeof(one.bytes);
  }
  words[1].header.kind = Kind::proof;
  std::vector<Socket> open(300);
  for (int i = 0; i < calls;) {
    Socket& socket = open[static_cast<std::size_t>(i) % open.size()];
    socket = connect_here(launch.port);
    if (!socket.open()) continue;
    const std::size_t said = i % 4 == 0 ? 2 : i % 4 == 2 ? 1 : 0;
    if (said > 0) send(socket.get(), words.data(), said * sizeof(Words), MSG_NOSIGNAL);
    ++i;
  }
}

TEST(Strangers, ThreeHundredSilentOnesLeaveRanksDescriptorsEnough) {
  const std::uint16_t port = free_port();
  OtherProcess strangers([&] {
    std::vector<Socket> open;
    while (open.size() < 300) {
      Socket socket = connect_here(port);
      if (socket.open()) open.push_back(std::move(socket));
    }
    sleep_for(600);
  });
  const FewDescriptors few(256);
  expect_none(on_threads(2, [&](int rank) {
    if (rank == 1) sleep_for(0.5);
    meet(patient(keyed(rank, 2, port)));
  }));
}

TEST(Strangers, TenThousandTakeNeitherMemoryNorDescriptors) {
  const std::uint16_t port = free_port();
  OtherProcess strangers([&] { flood(keyed(0, 2, port).launch, 10000); });
  std::size_t most_descriptors = 0, most_bytes = 0;
  const auto before = mallinfo2().uordblks;
  expect_none(on_threads(2, [&](int rank) {
    TcpTransportOptions options = patient(keyed(rank, 2, port));
    if (rank == 1) strangers.wait();
    if (rank == 0) {
      options.check = [&] {
        most_descriptors = std::max(most_descriptors, open_descriptors());
        most_bytes = std::max<std::size_t>(most_bytes, mallinfo2().uordblks);
      };
    }
    meet(options);
  }));
  EXPECT_LT(most_descriptors, 160U);
  EXPECT_LT(most_bytes, before + (std::size_t{1} << 20));
}

TEST(Strangers, AFloodThatDoesNotEndStarvesNoRank) {
  const std::uint16_t port = free_port();
  const OtherProcess strangers([&] { flood(keyed(0, 3, port).launch, 1 << 30); });
  expect_none(on_threads(3, [&](int rank) {
    if (rank > 0) sleep_for(0.2);
    meet(patient(keyed(rank, 3, port)));
  }));
}

TEST(Strangers, AProcessOutOfDescriptorsWaitsAndSaysSo) {
  const std::uint16_t port = free_port();
  std::optional<FewDescriptors> few;
  std::vector<Socket> callers;
  TcpTransportOptions options = within(0.5, keyed(0, 2, port));
  options.check = [&] {
    if (few) return;
    callers.push_back(connect_here(port));
    const Socket next(dup(0));
    few.emplace(static_cast<rlim_t>(next.get()));
  };
  const Caught caught = test::error_of([&] { meet(options); });
  few.reset();
  test::expect_error(ErrorCode::peer_lost, {"rank 1 has not called", "ulimit -n"}, caught);
}

bool listens_at(const InternetAddress& address, std::uint16_t port) {
  const Socket socket = call(address, port);
  pollfd entry{socket.get(), POLLOUT, 0};
  return socket.open() && poll(&entry, 1, 1000) == 1 && call_error(socket) == 0;
}

TEST(Strangers, RanksListenOnlyWhereTheOthersCallAndUntilAllAreConnected) {
  const std::uint16_t port = free_port();
  const InternetAddress elsewhere = InternetAddress::of_ipv4(htonl(INADDR_LOOPBACK + 1));
  expect_none(on_threads(2, [&](int rank) {
    TcpTransportOptions options = keyed(rank, 2, port);
    options.launch.address = "127.0.0.1";
    if (rank == 1) {
      while (!listens_at(InternetAddress::loopback(), port)) sleep_for(0.01);
      EXPECT_FALSE(listens_at(elsewhere, port));
    }
    TcpGroup group(options);
    EXPECT_EQ(group.warning(), "");
    group.run([](Communicator& comm) { barrier(comm, Channel::halo); });
    EXPECT_FALSE(listens_at(InternetAddress::loopback(), port));
    group.leave();
  }));
}

TEST(Strangers, WhereRankZeroListensForOtherHostsAKeyIsAskedFor) {
  for (const bool has_key : {false, true}) {
    const std::uint16_t port = free_port();
    expect_none(on_threads(2, [&](int rank) {
      TcpTransportOptions options = keyed(rank, 2, port, has_key ? kSecret : "");
      // RFC 5737: no host has this address, as where rank 0 is behind NAT.
      if (rank == 0) options.launch.address = "192.0.2.1";
      TcpGroup group(options);
      const bool warns = group.warning().find("HELIOGRAPH_RUN_KEY is not set") == 0;
      EXPECT_EQ(warns, rank == 0 && !has_key) << group.warning();
      group.run([](Communicator& comm) { barrier(comm, Channel::halo); });
      group.leave();
    }));
  }
}

}  // namespace
}  // namespace heliograph
