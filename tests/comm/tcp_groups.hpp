#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/tcp/transport.hpp"
#include "support/expect_error.hpp"

namespace heliograph::test {

/// A port at which nobody listens. It lies below the ports that the system gives to connections,
/// and each process begins its search elsewhere, so nobody is likely to take it before it is used.
inline std::uint16_t free_port() {
  static std::atomic<unsigned> next{static_cast<unsigned>(getpid()) * 61};
  for (int tries = 0; tries < 1000; ++tries) {
    try {
      return port_of(listen_on(static_cast<std::uint16_t>(12000 + next++ % 20000)));
    } catch (const Error&) {
      // It is taken: try the next one.
    }
  }
  throw Error(ErrorCode::resource, "a thousand ports are taken");
}

/// The options of rank `rank` of `ranks` on one host, as torchrun would set them.
inline TcpTransportOptions tcp_options(int rank, int ranks, std::uint16_t port) {
  TcpTransportOptions options;
  options.timeout_seconds = 20;
  options.launch.rank = rank;
  options.launch.ranks = ranks;
  options.launch.address = "localhost";
  options.launch.port = port;
  return options;
}

/// The deadlines of `patient`, in seconds. What a rank notices by itself takes less than half.
inline constexpr double kPatience = 60;

/// The same options, but with long deadlines.
inline TcpTransportOptions patient(TcpTransportOptions options) {
  options.timeout_seconds = kPatience;
  options.silence = {kPatience, kPatience, kPatience};
  return options;
}

/// Makes the group that `options` describes and leaves it.
inline void meet(const TcpTransportOptions& options) {
  TcpGroup group(options);
  group.run([](Communicator& comm) { barrier(comm, Channel::halo); });
  group.leave();
}

inline TcpTransportOptions within(double seconds, TcpTransportOptions options) {
  options.timeout_seconds = seconds;
  return options;
}

/// Connects to `port` of this host as soon as somebody listens there.
inline Socket call_here(std::uint16_t port) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    Socket socket = call(InternetAddress::loopback(), port);
    pollfd entry{socket.get(), POLLOUT, 0};
    if (socket.open() && poll(&entry, 1, 1000) == 1 && call_error(socket) == 0) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "nobody listens at port " << port;
  return Socket();
}

/// Calls action(rank) for all ranks, each on a thread of its own, and returns what each threw.
inline std::vector<Caught> on_threads(int ranks, const std::function<void(int)>& action) {
  std::vector<Caught> caught(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back(
        [&, rank] { caught[static_cast<std::size_t>(rank)] = caught_from([&] { action(rank); }); });
  }
  for (std::thread& thread : threads) thread.join();
  return caught;
}

/// Makes the groups of all ranks of a run in this process, runs body(comm) on each and leaves them.
/// Returns what each rank threw; the text is empty where it threw nothing.
inline std::vector<Caught> run_tcp_groups(
    int ranks, const std::function<void(Communicator&)>& body,
    const std::function<void(TcpTransportOptions&)>& change = {}) {
  const std::uint16_t port = free_port();
  // Groups that fail live until all ranks have heard why, as processes do.
  std::vector<std::unique_ptr<TcpGroup>> groups(static_cast<std::size_t>(ranks));
  return on_threads(ranks, [&](int rank) {
    TcpTransportOptions options = tcp_options(rank, ranks, port);
    if (change) change(options);
    auto& group = groups[static_cast<std::size_t>(rank)];
    group = std::make_unique<TcpGroup>(options);
    group->run(body);
    group->leave();
  });
}

inline void expect_none(const std::vector<Caught>& caught) {
  for (const Caught& one : caught) EXPECT_EQ(one.text, "");
}

}  // namespace heliograph::test
