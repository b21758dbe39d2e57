#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/tcp/transport.hpp"
#include "support/expect_error.hpp"

namespace heliograph::test {

/// A port that nobody listens on. It lies below those that the system gives to connections, and
/// each process counts from a place of its own, so that nobody takes it before it is used.
inline std::uint16_t free_port() {
  static std::atomic<unsigned> next{static_cast<unsigned>(getpid()) * 61};
  for (int tries = 0; tries < 1000; ++tries) {
    try {
      return port_of(listen_on(static_cast<std::uint16_t>(12000 + next++ % 20000)));
    } catch (const Error&) {
      // Somebody else's: the next one.
    }
  }
  throw Error(ErrorCode::resource, "a thousand ports are taken");
}

/// As torchrun would say it to rank `rank` of `ranks` on one host.
inline TcpTransportOptions tcp_options(int rank, int ranks, std::uint16_t port) {
  TcpTransportOptions options;
  options.timeout_seconds = 20;
  options.launch.rank = rank;
  options.launch.ranks = ranks;
  options.launch.address = "localhost";
  options.launch.port = port;
  return options;
}

/// The longest wait of who is patient. What is noticed does not take the half of it.
inline constexpr double kPatience = 60;

/// The same, but who waits for what does not come, or for who is silent, waits for long.
inline TcpTransportOptions patient(TcpTransportOptions options) {
  options.timeout_seconds = kPatience;
  options.silence = {kPatience, kPatience, kPatience};
  return options;
}

/// Calls action(rank) on a thread a rank, and returns what each threw.
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

/// The groups of all ranks of a run, in this process: makes them, runs body(comm) on each, leaves.
/// Returns what each rank threw; nothing: an empty text.
inline std::vector<Caught> run_tcp_groups(
    int ranks, const std::function<void(Communicator&)>& body,
    const std::function<void(TcpTransportOptions&)>& change = {}) {
  const std::uint16_t port = free_port();
  // Those that fail live on until all have heard why, as processes do.
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
