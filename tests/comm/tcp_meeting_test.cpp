// How the processes of a run find each other by TCP, and whom they refuse.
#include "comm/rendezvous/tcp_meeting.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/sleep_for.hpp"
#include "comm/tcp_groups.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using test::Caught;
using test::error_of;
using test::expect_none;
using test::free_port;
using test::kPatience;
using test::on_threads;
using test::patient;
using test::sleep_for;
using test::tcp_options;

/// Makes the group that `options` asks for and leaves it.
void meet(const TcpTransportOptions& options) {
  TcpGroup group(options);
  group.run([](Communicator& comm) { barrier(comm, Channel::halo); });
  group.leave();
}

TcpTransportOptions within(double seconds, TcpTransportOptions options) {
  options.timeout_seconds = seconds;
  return options;
}

/// A connection to `port` of this host, once somebody listens there.
Socket call_here(std::uint16_t port) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    Socket socket = call(InternetAddress::loopback(), port);
    pollfd entry{socket.get(), POLLOUT, 0};
    if (socket.open() && poll(&entry, 1, 1000) == 1 && call_error(socket) == 0) return socket;
    sleep_for(0.01);
  }
  ADD_FAILURE() << "nobody listens at port " << port;
  return Socket();
}

TEST(TcpMeeting, RanksMeetByEveryKindOfAddressWhoeverComesFirst) {
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

TEST(TcpMeeting, HostsOfOtherAddressesMeetByThose) {
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

TEST(TcpMeeting, ProcessesOfDifferentHostsAreCalledAtIpv6AddressesToo) {
  std::vector<ProcessMesh> meshes(3);
  std::vector<ProcessAddress> addresses;
  InternetAddress ipv6;
  ipv6.bytes[15] = 1;  // ::1
  for (const ProcessMesh& mesh : meshes) {
    ProcessAddress address = mesh.address();
    address.network = addresses.size();  // As if on hosts of their own.
    address.addresses = {ipv6};
    addresses.push_back(address);
  }
  const auto caught = on_threads(3, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::vector<Socket> sockets = meshes[r].connect(rank, addresses, 5);
    for (std::size_t peer = 0; peer < 3; ++peer) EXPECT_EQ(sockets[peer].open(), peer != r);
  });
  expect_none(caught);
}

TEST(TcpMeeting, ARankThatDoesNotComeIsNamedByAll) {
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

TEST(TcpMeeting, WhoDoesNotFindRankZeroSaysWhereItLooked) {
  const std::uint16_t port = free_port();
  const std::string where = "localhost:" + std::to_string(port);
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1 did not meet rank 0 at " + where + " within 0.4 s", "refused"},
                     [&] { meet(within(0.4, tcp_options(1, 2, port))); });

  TcpTransportOptions nowhere = within(0.4, tcp_options(1, 2, port));
  nowhere.launch.address = "no such host.invalid";
  test::expect_error(ErrorCode::peer_lost, {"no such host.invalid", "MASTER_ADDR is no address"},
                     [&] { meet(nowhere); });
}

TEST(TcpMeeting, APortThatIsTakenIsNamed) {
  const Socket taken = listen_on(0);
  const auto caught = error_of([&] { meet(tcp_options(0, 2, port_of(taken))); });
  test::expect_error(
      ErrorCode::resource,
      {"rank 0 cannot listen at port " + std::to_string(port_of(taken)), "MASTER_PORT", "in use"},
      caught);
}

TEST(TcpMeeting, APortThatIsTakenForAMomentIsWaitedFor) {
  Socket taken = listen_on(0);
  const std::uint16_t port = port_of(taken);
  std::thread later([&] {
    sleep_for(0.5);
    taken.close();
  });
  expect_none(on_threads(2, [&](int rank) { meet(tcp_options(rank, 2, port)); }));
  later.join();
}

TEST(TcpMeeting, APortThatACallWasMadeFromCanBeListenedAt) {
  // A call that found nobody may have been from the port of rank 0 itself.
  const Socket listener = listen_on(0);
  Socket calls = call(InternetAddress::loopback(), port_of(listener));
  pollfd entry{listener.get(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 1000), 1);
  Socket called = accept_call(listener);
  const std::uint16_t port = port_of(calls);
  calls.close();  // It lingers, as who closes first does.
  called.close();
  EXPECT_TRUE(listen_on(port).open());
}

TEST(TcpMeeting, WhoseOthersAreLostWhileTheyMeetCanBeStopped) {
  std::vector<std::unique_ptr<RankWatch>> watches;
  std::vector<ProcessAddress> addresses;
  for (int rank = 0; rank < 2; ++rank) {
    watches.push_back(std::make_unique<RankWatch>(rank, 2, patient({}).silence));
    addresses.push_back(watches.back()->address());
  }
  const double began = link_now();
  const auto stop = [&] {
    if (link_now() > began + 0.2) throw Error(ErrorCode::interrupted, "stopped");
  };
  test::expect_error(ErrorCode::interrupted, "stopped",
                     [&] { watches[0]->start(addresses, stop); });
  EXPECT_LT(link_now() - began, kPatience / 2);
}

TEST(TcpMeeting, WhereTorchrunListensItselfTheNextFreePortIsTaken) {
  // MASTER_PORT and the one behind it are others': one is silent, as a stranger may be.
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

TEST(TcpMeeting, StrangersHoldUpNobody) {
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

TEST(TcpMeeting, AStrangerIsNamedWhereARankIsMissing) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(2, [&](int rank) {
    if (rank == 0) return meet(within(0.8, tcp_options(0, 2, port)));
    const Socket stranger = call_here(port);
    const std::vector<char> words(200, 'x');
    send(stranger.get(), words.data(), words.size(), MSG_NOSIGNAL);
    sleep_for(0.4);
  });
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1 has not called", "refused was a stranger from 127.0.0.1"}, caught[0]);
}

TEST(TcpMeeting, ARankOfAnotherRunIsRefused) {
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
    TcpTransportOptions options = within(0.6, tcp_options(rank, 2, port));
    if (rank == 1) options.launch.run = "another";
    meet(options);
  });
  test::expect_error(ErrorCode::peer_lost, {"refused was rank 1", "as it is of another run"},
                     waits[0]);
  test::expect_error(ErrorCode::peer_lost, "another run is met there", waits[1]);
}

TEST(TcpMeeting, OtherNumbersOfRanksAreRefusedByName) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(
      2, [&](int rank) { meet(within(1.5, tcp_options(rank, rank == 0 ? 2 : 3, port))); });
  test::expect_error(ErrorCode::usage,
                     {"refuses rank 1", "its WORLD_SIZE is 3 and that of rank 0 2"}, caught[1]);
  test::expect_error(ErrorCode::peer_lost, {"refused was rank 1", "WORLD_SIZE is 3"}, caught[0]);
}

TEST(TcpMeeting, ARankThatComesTwiceEndsTheRunForAll) {
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

TEST(TcpMeeting, AnotherVersionIsRefusedByName) {
  const std::uint16_t port = free_port();
  TcpAnswer answer;
  const auto caught = on_threads(2, [&](int rank) {
    if (rank == 0) return meet(within(1, tcp_options(0, 2, port)));
    const Socket socket = call_here(port);
    TcpCall old;
    old.version = TcpCall::kVersion + 1;
    const std::function<void()> none;
    const TcpWait wait{link_now() + 5, none};
    EXPECT_EQ(send_all(socket, &old, sizeof(old), wait), TcpMoved::all);
    EXPECT_EQ(receive_all(socket, &answer, sizeof(answer), wait), TcpMoved::all);
  });
  EXPECT_EQ(answer.word, TcpAnswer::Word::refused);
  EXPECT_STREQ(answer.text.data(),
               "it speaks version 2 and rank 0 version 1: start the same build on all hosts");
  test::expect_error(ErrorCode::peer_lost, {"refused was rank 0", "speaks version 2"}, caught[0]);
}

TEST(TcpMeeting, ARankThatEndsBeforeAllHaveMetEndsTheOthersSoon) {
  const std::uint16_t port = free_port();
  const double began = link_now();
  const auto caught = on_threads(3, [&](int rank) {
    TcpTransportOptions options = patient(tcp_options(rank, 4, port));
    if (rank == 2) {
      // Stopped by its caller, as by a signal.
      options.check = [until = link_now() + 0.4] {
        if (link_now() > until) throw std::runtime_error("stopped");
      };
      EXPECT_THROW(meet(options), std::runtime_error);
      return;
    }
    meet(options);
  });
  for (const int rank : {0, 1}) {
    test::expect_error(ErrorCode::peer_lost,
                       {"rank 2 on host ", "has ended before all ranks had met"},
                       caught[static_cast<std::size_t>(rank)]);
  }
  EXPECT_LT(link_now() - began, kPatience / 2);
}

TEST(TcpMeeting, RankZeroThatEndsBeforeAllHaveMetEndsTheOthersAtOnce) {
  const std::uint16_t port = free_port();
  const auto caught = on_threads(2, [&](int rank) {
    TcpTransportOptions options = tcp_options(rank, 3, port);
    if (rank == 0) {
      options.check = [until = link_now() + 0.4] {
        if (link_now() > until) throw Error(ErrorCode::interrupted, "stopped by hand");
      };
    }
    meet(options);
  });
  test::expect_error(ErrorCode::interrupted, "stopped by hand", caught[0]);
  test::expect_error(ErrorCode::peer_lost, "rank 0: stopped by hand", caught[1]);
}

TEST(TcpMeeting, WhoEndsBeforeAllWatchEachOtherIsNamedByAllAtOnce) {
  for (const int lost : {0, 2}) {
    const std::uint16_t port = free_port();
    const double began = link_now();
    const auto caught = on_threads(3, [&](int rank) {
      const TcpTransportOptions options = patient(tcp_options(rank, 3, port));
      if (rank != lost) return meet(options);
      // It tells where it listens, and is there no more.
      RankWatch watch(rank, 3, options.silence);
      TcpIntroduction mine{introduce(watch.address()), {}};
      introduce_by_tcp(options.launch, mine, 20, {});
    });
    const std::string name = "rank " + std::to_string(lost) + " on host ";
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == lost) continue;
      test::expect_error(ErrorCode::peer_lost, {name, "has ended before all ranks had met"},
                         caught[static_cast<std::size_t>(rank)]);
    }
    EXPECT_LT(link_now() - began, kPatience / 2);
  }
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
