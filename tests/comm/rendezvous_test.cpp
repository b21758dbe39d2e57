// How the processes of a run find each other and connect by TCP, and whom they refuse.
#include "comm/rendezvous/rendezvous.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/clock.hpp"
#include "comm/collectives.hpp"
#include "comm/sleep_for.hpp"
#include "comm/tcp_groups.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using test::call_here;
using test::Caught;
using test::error_of;
using test::expect_none;
using test::free_port;
using test::kPatience;
using test::meet;
using test::on_threads;
using test::patient;
using test::sleep_for;
using test::tcp_options;
using test::within;

TEST(Rendezvous, RanksMeetByEveryKindOfAddressWhoeverComesFirst) {
  for (const char* address : {"localhost", "127.0.0.1", "::1"}) {
    for (const int late : {0, 1}) {
      const std::uint16_t port = free_port();
      expect_none(on_threads(3, [&](int rank) {
        TcpTransportOptions options = tcp_options(rank, 3, port);
        options.launch.address = address;
        if (rank == late) sleep_for(0.3);
        meet(options);
      }));
    }
  }
}

TEST(Rendezvous, HostsOfOtherAddressesMeetByThose) {
  const std::vector<InternetAddress> own = own_addresses();
  if (own.empty()) GTEST_SKIP() << "this host has no address but its own loopback";
  for (const InternetAddress& address : own) {
    const std::uint16_t port = free_port();
    expect_none(on_threads(2, [&](int rank) {
      TcpTransportOptions options = tcp_options(rank, 2, port);
      options.launch.address = address.text();
      meet(options);
    }));
  }
}

/// Ranks of this process that know each other's introductions.
class KnownRanks {
 public:
  /// With `addresses`, each rank is as if on a host of its own that has these addresses.
  explicit KnownRanks(int ranks, const std::vector<InternetAddress>& addresses = {}) {
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(introduce_process());
      if (addresses.empty()) continue;
      all.back().network = static_cast<std::uint64_t>(rank);
      all.back().listen_at(addresses);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      all[static_cast<std::size_t>(rank)].port = rendezvous.emplace_back(rank, all).port();
    }
  }
  std::vector<std::vector<Socket>> connect(int rank, int links, double seconds) {
    return rendezvous[static_cast<std::size_t>(rank)].connect(all, links, seconds);
  }

  std::deque<Rendezvous> rendezvous;
  std::vector<Introduction> all;
};

TEST(Rendezvous, ProcessesOfDifferentHostsAreCalledAtIpv6AddressesToo) {
  InternetAddress ipv6;
  ipv6.bytes[15] = 1;  // ::1
  KnownRanks ranks(3, {ipv6});
  expect_none(on_threads(3, [&](int rank) {
    const std::vector<Socket> sockets = std::move(ranks.connect(rank, 1, 5)[0]);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(sockets[static_cast<std::size_t>(peer)].open(), peer != rank);
    }
  }));
}

TEST(Rendezvous, ASlowRankAndADeadAddressHoldUpNobodyElse) {
  constexpr int kRanks = 4;
  constexpr int kLinks = 2;
  // RFC 5737: nobody has the first of these addresses.
  KnownRanks ranks(kRanks,
                   {InternetAddress::of_ipv4(inet_addr("192.0.2.1")), InternetAddress::loopback()});
  std::vector<std::vector<std::vector<Socket>>> sockets(kRanks);
  expect_none(on_threads(kRanks, [&](int rank) {
    if (rank == 1) sleep_for(2.5);  // The others have called it long before.
    sockets[static_cast<std::size_t>(rank)] = ranks.connect(rank, kLinks, 8);
  }));
  // Both ends of each link hold the same connection, and nothing is on it but what they say.
  for (std::size_t i = 0; i < kRanks * kRanks * kLinks; ++i) {
    const std::size_t a = i / kLinks / kRanks, b = i / kLinks % kRanks, link = i % kLinks;
    if (a == b) continue;
    const char said = static_cast<char>(i);
    ASSERT_EQ(send(sockets[a][link][b].get(), &said, 1, MSG_NOSIGNAL), 1);
    char heard = 0;
    pollfd entry{sockets[b][link][a].get(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 2000), 1) << a << " to " << b;
    ASSERT_EQ(recv(sockets[b][link][a].get(), &heard, 1, 0), 1);
    EXPECT_EQ(heard, said);
  }
}

TEST(Rendezvous, ACallerThatDoesNotKnowTheRunIsNoRank) {
  KnownRanks ranks(2);
  Rendezvous wrong(1, ranks.all);
  std::vector<Introduction> forged = ranks.all;
  forged[0].token[0] ^= std::byte{1};
  expect_none(on_threads(2, [&](int rank) {
    if (rank == 1) {
      EXPECT_EQ(error_of([&] { wrong.connect(forged, 1, 0.2); }).code, ErrorCode::peer_lost);
    }
    EXPECT_TRUE(ranks.connect(rank, 1, 5)[0][static_cast<std::size_t>(1 - rank)].open());
  }));
}

TEST(Rendezvous, ARankThatNeverCallsIsNamed) {
  KnownRanks ranks(2);
  const auto caught = error_of([&] { ranks.connect(0, 1, 0.2); });
  EXPECT_EQ(caught.code, ErrorCode::peer_lost);
  EXPECT_EQ(caught.text.find("rank 1 on host "), 0U) << caught.text;
}

TEST(Rendezvous, ARankThatDoesNotComeIsNamedByAll) {
  const std::uint16_t port = free_port();
  const auto caught =
      on_threads(2, [&](int rank) { meet(within(0.5, tcp_options(rank, 4, port))); });
  for (const Caught& one : caught) {
    test::expect_error(
        ErrorCode::peer_lost,
        {"rank 2 and 1 more have not called rank 0 at localhost:" + std::to_string(port),
         "within 0.5 s"},
        one);
  }
}

TEST(Rendezvous, WhoDoesNotFindRankZeroSaysWhereItLooked) {
  const std::uint16_t port = free_port();
  const std::string where = "localhost:" + std::to_string(port);
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1 did not meet rank 0 at " + where + " within 0.4 s", "refused"},
                     [&] { meet(within(0.4, tcp_options(1, 2, port))); });

  TcpTransportOptions nowhere = within(0.4, tcp_options(1, 2, port));
  nowhere.launch.address = "no such host.invalid";
  test::expect_error(ErrorCode::peer_lost,
                     {"no such host.invalid", "MASTER_ADDR cannot be resolved"},
                     error_of([&] { meet(nowhere); }));
  nowhere = within(0.4, tcp_options(0, 2, port));
  nowhere.launch.address = "no such host.invalid";
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1 has not called", "MASTER_ADDR cannot be resolved here"},
                     error_of([&] { meet(nowhere); }));
}

TEST(Rendezvous, APortThatIsTakenIsNamed) {
  const Socket taken = listen_on(0);
  const auto caught = error_of([&] { meet(tcp_options(0, 2, port_of(taken))); });
  test::expect_error(
      ErrorCode::resource,
      {"rank 0 cannot listen at port " + std::to_string(port_of(taken)), "MASTER_PORT", "in use"},
      caught);
}

TEST(Rendezvous, APortThatIsTakenForAMomentIsWaitedFor) {
  Socket taken = listen_on(0);
  const std::uint16_t port = port_of(taken);
  std::thread later([&] {
    sleep_for(0.5);
    taken.close();
  });
  expect_none(on_threads(2, [&](int rank) { meet(tcp_options(rank, 2, port)); }));
  later.join();
}

TEST(Rendezvous, APortThatACallWasMadeFromCanBeListenedAt) {
  // A rank that calls before rank 0 is there may call from the very port of rank 0.
  const Socket listener = listen_on(0);
  Socket calls = call(InternetAddress::loopback(), port_of(listener));
  pollfd entry{listener.get(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 1000), 1);
  Socket called = accept_call(listener);
  const std::uint16_t port = port_of(calls);
  calls.close();  // The port lingers on the side that closes first.
  called.close();
  EXPECT_TRUE(listen_on(port).open());
}

TEST(Rendezvous, ARankWhoseOthersAreLostCanBeStopped) {
  KnownRanks ranks(2);
  const double began = monotonic_seconds();
  const auto stop = [&] {
    if (monotonic_seconds() > began + 0.2) throw Error(ErrorCode::interrupted, "stopped");
  };
  test::expect_error(ErrorCode::interrupted, {"stopped"},
                     error_of([&] { ranks.rendezvous[0].connect(ranks.all, 1, kPatience, stop); }));
  EXPECT_LT(monotonic_seconds() - began, kPatience / 2);
}

TEST(Rendezvous, WhereTorchrunListensItselfTheNextFreePortIsTaken) {
  // MASTER_PORT and the port behind it are taken. Whoever listens at the second never answers.
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Socket store = listen_on(0);
    const std::uint16_t port = port_of(store);
    const Socket stranger = listen_on(static_cast<std::uint16_t>(port + 1));
    if (!stranger.open()) continue;
    expect_none(on_threads(2, [&](int rank) {
      TcpTransportOptions options = tcp_options(rank, 2, port);
      options.launch.port_is_taken = true;
      meet(options);
    }));
    return;
  }
  ADD_FAILURE() << "no two ports in a row are free";
}

TEST(Rendezvous, StrangersHoldUpNobody) {
  const std::uint16_t port = free_port();
  std::vector<Socket> strangers;
  std::atomic<bool> called = false;
  const auto caught = on_threads(2, [&](int rank) {
    if (rank == 0) return meet(tcp_options(0, 2, port));
    strangers.push_back(call_here(port));  // Says nothing.
    strangers.push_back(call_here(port));
    const std::string words = "GET / HTTP/1.1\r\nHost: a host of some name\r\nAccept: */*\r\n\r\n";
    send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
    strangers.push_back(call_here(port));
    strangers.back().close();
    called = true;
    meet(tcp_options(1, 2, port));
  });
  expect_none(caught);
  EXPECT_TRUE(called);
}

TEST(Rendezvous, AStrangerIsNamedWhereARankIsMissing) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(2, [&](int rank) {
    if (rank == 0) return meet(within(0.8, tcp_options(0, 2, port)));
    const Socket stranger = call_here(port);
    const std::vector<char> words(200, 'x');
    send(stranger.get(), words.data(), words.size(), MSG_NOSIGNAL);
    sleep_for(0.4);
  });
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1 has not called", "a stranger from 127.0.0.1 was refused"}, caught[0]);
}

TEST(Rendezvous, ARankOfAnotherRunIsRefused) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(3, [&](int rank) {
    if (rank < 2) return meet(tcp_options(rank, 2, port));
    TcpTransportOptions other = within(0.5, tcp_options(1, 2, port));
    other.launch.run = "another";
    sleep_for(0.1);
    meet(other);
  });
  EXPECT_EQ(caught[0].text + caught[1].text, "");
  test::expect_error(ErrorCode::peer_lost, "did not meet rank 0", caught[2]);

  const auto waits = on_threads(2, [&](int rank) {
    // Rank 0 listens until rank 1 has given up.
    TcpTransportOptions options = within(rank == 0 ? 2 : 0.5, tcp_options(rank, 2, port));
    if (rank == 1) options.launch.run = "another";
    meet(options);
  });
  test::expect_error(ErrorCode::peer_lost, {"rank 1 from ", " was refused: it is of another run"},
                     waits[0]);
  test::expect_error(ErrorCode::peer_lost, {"another run meets there"}, waits[1]);
}

TEST(Rendezvous, OtherNumbersOfRanksAreRefusedByName) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(
      2, [&](int rank) { meet(within(1.5, tcp_options(rank, rank == 0 ? 2 : 3, port))); });
  test::expect_error(ErrorCode::usage,
                     {"refuses rank 1", "its WORLD_SIZE is 3 and that of rank 0 2"}, caught[1]);
  test::expect_error(ErrorCode::peer_lost, {"rank 1 from ", " was refused: its WORLD_SIZE is 3"},
                     caught[0]);
}

TEST(Rendezvous, ARankThatComesTwiceEndsTheRunForAll) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(3, [&](int thread) {
    if (thread == 2) sleep_for(0.3);
    meet(tcp_options(thread == 0 ? 0 : 1, 3, port));
  });
  test::expect_error(ErrorCode::usage, "RANK 1 is given to two processes", caught[0]);
  test::expect_error(ErrorCode::peer_lost, "RANK 1 is given to two processes", caught[1]);
  test::expect_error(ErrorCode::usage, {"refuses rank 1", "RANK 1 is given to two processes"},
                     caught[2]);
}

TEST(Rendezvous, ARankThatComesTwiceOnceAllHaveMetIsToldSo) {
  const std::uint16_t port = free_port();
  std::atomic<bool> met = false, refused = false;
  const auto await = [](const std::atomic<bool>& event) {
    while (!event) sleep_for(0.001);
  };
  const auto caught = on_threads(3, [&](int thread) {
    if (thread == 2) await(met);
    Rendezvous rendezvous(tcp_options(thread == 0 ? 0 : 1, 2, port).launch);
    try {
      const auto all = rendezvous.introduce(kPatience, {});
      if (thread == 1) {
        met = true;
        await(refused);
      }
      rendezvous.connect(all, 1, kPatience);
    } catch (...) {
      met = refused = true;
      throw;
    }
  });
  test::expect_error(ErrorCode::usage,
                     {"refuses rank 1", "have met already; RANK 1 is given to two processes"},
                     caught[2]);
  expect_none({caught[0], caught[1]});
}

TEST(Rendezvous, AnotherVersionIsRefusedByName) {
  const std::uint16_t port = free_port();
  const std::string other = std::to_string(HandshakeHeader::kVersion + 1);
  const auto caught = on_threads(2, [&](int rank) {
    if (rank == 0) return meet(within(1, tcp_options(0, 2, port)));
    Connection connection(call_here(port));
    HandshakeHeader call;
    call.version = HandshakeHeader::kVersion + 1;
    call.from = 1;
    ASSERT_TRUE(connection.send(call));
    pollfd entry = connection.entry();
    ASSERT_EQ(poll(&entry, 1, 5000), 1);
    ASSERT_TRUE(connection.receive(1000));
    EXPECT_EQ(connection.header().kind, HandshakeHeader::Kind::refused);
    EXPECT_EQ(connection.text(), "it speaks version " + other + " and rank 0 version " +
                                     std::to_string(HandshakeHeader::kVersion) +
                                     ": start the same build on all hosts");
  });
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1 from 127.0.0.1 was refused", "speaks version " + other}, caught[0]);
}

TEST(Rendezvous, ACallerThatCallsTwiceOnOneConnectionIsDropped) {
  const std::uint16_t port = free_port();
  on_threads(2, [&](int rank) {
    const TcpTransportOptions options = within(1, tcp_options(rank, 2, port));
    if (rank == 0) return meet(options);
    Connection connection(call_here(port));
    HandshakeHeader call;
    call.run = options.launch.run_id();
    call.ranks = 2;
    call.from = 1;
    call.to = 0;
    const ProofBytes number = random_bytes();
    const auto receive = [&] {
      pollfd entry = connection.entry();
      return poll(&entry, 1, 5000) == 1 && connection.receive(1000);
    };
    ASSERT_TRUE(connection.send(call, number));
    ASSERT_TRUE(receive());
    EXPECT_EQ(connection.header().kind, HandshakeHeader::Kind::challenge);
    ASSERT_TRUE(connection.send(call, number));
    EXPECT_FALSE(receive());
    EXPECT_TRUE(connection.ended());
  });
}

TEST(Rendezvous, ARankThatGivesUpBeforeAllHaveMetTellsTheOthersWhy) {
  for (const auto& [code, of_others] : {std::pair(ErrorCode::interrupted, ErrorCode::interrupted),
                                        std::pair(ErrorCode::resource, ErrorCode::peer_lost)}) {
    for (const int who : {0, 2}) {
      const std::uint16_t port = free_port();
      const double began = monotonic_seconds();
      const auto caught = on_threads(3, [&, code = code](int rank) {
        TcpTransportOptions options = patient(tcp_options(rank, 4, port));
        if (rank == who) {
          options.check = [code, until = monotonic_seconds() + 0.4] {
            if (monotonic_seconds() > until) throw Error(code, "ended by hand");
          };
        }
        meet(options);
      });
      for (int rank = 0; rank < 3; ++rank) {
        const std::string teller = rank == who ? "" : "rank " + std::to_string(who) + ": ";
        const Caught& one = caught[static_cast<std::size_t>(rank)];
        EXPECT_EQ(one.text, teller + "ended by hand");
        EXPECT_EQ(one.code, rank == who ? code : of_others);
      }
      EXPECT_LT(monotonic_seconds() - began, kPatience / 2);
    }
  }
}

TEST(Rendezvous, WhoEndsBeforeAllWatchEachOtherIsNamedByAllAtOnce) {
  for (const int lost : {0, 2}) {
    const std::uint16_t port = free_port();
    const double began = monotonic_seconds();
    const auto caught = on_threads(3, [&](int rank) {
      const TcpTransportOptions options = patient(tcp_options(rank, 3, port));
      if (rank != lost) return meet(options);
      Rendezvous(options.launch).introduce(20, {});  // Then it is gone.
    });
    const std::string name = "rank " + std::to_string(lost) + " on host ";
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == lost) continue;
      test::expect_error(ErrorCode::peer_lost, {name, "has ended before all ranks had met"},
                         caught[static_cast<std::size_t>(rank)]);
    }
    EXPECT_LT(monotonic_seconds() - began, kPatience / 2);
  }
}

TEST(Rendezvous, AStopWhileRanksConnectStopsAllOfThemOrNone) {
  constexpr int kRanks = 3;
  for (int turn = 0; turn < 45; ++turn) {
    const int stopped = turn % kRanks;
    const std::uint16_t port = free_port();
    const auto caught = on_threads(kRanks, [&](int rank) {
      Rendezvous rendezvous(tcp_options(rank, kRanks, port).launch);
      const auto all = rendezvous.introduce(kPatience, {});
      const auto stop = [rank, stopped, left = turn / kRanks]() mutable {
        if (rank == stopped && left-- <= 0) throw Error(ErrorCode::interrupted, "stopped by hand");
      };
      rendezvous.connect(all, 2, kPatience, stop);
    });
    const bool stops = std::any_of(caught.begin(), caught.end(), [](const Caught& one) {
      return one.code == ErrorCode::interrupted;
    });
    if (!stops) {
      EXPECT_GE(turn, kRanks) << "no rank is connected when it checks first";
      expect_none(caught);
      continue;
    }
    for (const Caught& one : caught) {
      EXPECT_EQ(one.code, ErrorCode::interrupted) << "turn " << turn << ": " << one.text;
    }
  }
}

TEST(Introduction, RanksShareCoresAndQuotas) {
  Introduction one = introduce_process();
  CPU_ZERO(&one.cores);
  for (int core = 0; core < 8; ++core) CPU_SET(core, &one.cores);
  one.quota = 0;
  std::vector<Introduction> all(2, one);
  EXPECT_EQ(share_of_cores(0, all), 4);
  for (Introduction& each : all) each.quota = 3;
  EXPECT_EQ(share_of_cores(0, all), 1) << "both are in one container";
  all[1].network += 1;
  EXPECT_EQ(share_of_cores(0, all), 3) << "each is in a container of its own";
  EXPECT_EQ(find_place(1, all).cores, 3);
}

TEST(InternetAddress, IsWrittenAsUsual) {
  EXPECT_EQ(InternetAddress::loopback().text(), "127.0.0.1");
  EXPECT_TRUE(InternetAddress::loopback().is_loopback());
  EXPECT_FALSE(InternetAddress{}.known());
  InternetAddress link_local;
  link_local.bytes = {0xfe, 0x80};
  link_local.bytes[15] = 2;
  EXPECT_TRUE(link_local.is_link_local());
  EXPECT_EQ(link_local.text(), "fe80::2");
  EXPECT_EQ(describe_endpoint("fd00::2", 80), "[fd00::2]:80");
  EXPECT_EQ(describe_endpoint("node1", 80), "node1:80");
}

}  // namespace
}  // namespace heliograph
