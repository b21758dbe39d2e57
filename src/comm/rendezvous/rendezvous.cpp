#include "comm/rendezvous/rendezvous.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// How long to wait for a port to become free. A rank that calls before rank 0 listens may hold the
/// port for a moment.
constexpr double kListenSeconds = 2;
constexpr double kListenRest = 0.05;
/// How much longer than rank 0 the other ranks wait, so that rank 0 can tell them who was missing.
constexpr double kReportSeconds = 2;

/// Seconds of waiting for the first meeting until a log line says for whom.
constexpr double kSilentSeconds = 2;

constexpr const char* kEndedEarly = "has ended before all ranks had met";

/// The share of the descriptors that this process may open which callers may hold that have not
/// proved that they belong to the run, and the most of them.
constexpr rlim_t kShareOfStrangers = 8;
constexpr rlim_t kMostStrangers = 64;

std::size_t most_strangers() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostStrangers;
  return std::clamp<rlim_t>(limit.rlim_cur / kShareOfStrangers, 1, kMostStrangers);
}

/// Listens at `addresses`, or everywhere if there are none. Returns nothing if a place is not
/// available, and leaves the reason in errno.
std::vector<Socket> listen_at(std::span<const InternetAddress> addresses, std::uint16_t port) {
  std::vector<Socket> listeners;
  do {
    const std::size_t next = listeners.size();
    listeners.push_back(listen_on(port, addresses.empty() ? InternetAddress{} : addresses[next]));
    if (!listeners.back().open()) return {};
    if (port == 0) port = port_of(listeners.back());
  } while (listeners.size() < addresses.size());
  return listeners;
}

/// The addresses at which rank 0 listens. Empty, which means everywhere, where MASTER_ADDR is not
/// an address of this host, such as behind NAT, or is one that other hosts do not know: Debian
/// resolves a host's own name to 127.0.1.1.
std::vector<InternetAddress> addresses_of_rank_0(const LaunchVariables& launch) {
  std::vector<InternetAddress> found;
  std::string ignored;
  for (const InternetAddress& address : addresses_of(launch.address, ignored)) {
    if (address.is_loopback() && !launch.names_this_host()) return {};
    if (found.size() < Introduction::kAddresses && listen_on(0, address).open()) {
      found.push_back(address);
    }
  }
  return found;
}

/// Listens at the first of the launch's ports that is free.
std::vector<Socket> listen_for_ranks(const LaunchVariables& launch, Introduction& mine) {
  const std::vector<std::uint16_t> ports = launch.ports();
  const std::vector<InternetAddress> addresses = addresses_of_rank_0(launch);
  int error = EADDRINUSE;
  for (const double began = monotonic_seconds(); error == EADDRINUSE;) {
    for (const std::uint16_t port : ports) {
      std::vector<Socket> listeners = listen_at(addresses, port);
      if (!listeners.empty()) {
        mine.port = port;
        if (!addresses.empty()) mine.listen_at(addresses);
        return listeners;
      }
      error = errno;
      if (error != EADDRINUSE) break;
    }
    if (monotonic_seconds() > began + kListenSeconds) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kListenRest));
  }
  std::string where = fmt::format("port {} (MASTER_PORT)", launch.port);
  if (launch.port_is_taken) {
    const auto [first, last] = std::minmax(ports.front(), ports.back());
    where = fmt::format("any of the ports {} to {} beside MASTER_PORT, which torchrun uses itself",
                        first, last);
  }
  throw_error(ErrorCode::resource, "--transport tcp: rank 0 cannot listen at {}: {}", where,
              std::strerror(error));
}

LaunchVariables without_address(int rank, std::size_t ranks) {
  LaunchVariables launch;
  launch.rank = rank;
  launch.ranks = static_cast<int>(ranks);
  return launch;
}

}  // namespace

Rendezvous::Rendezvous(const LaunchVariables& launch)
    : launch_(launch),
      rank_(launch.rank),
      ranks_(launch.ranks),
      key_(launch.key),
      most_strangers_(most_strangers()),
      mine_(introduce_process()) {
  if (rank_ == 0 && launch.port != 0) listeners_ = listen_for_ranks(launch, mine_);
}

Rendezvous::Rendezvous(int rank, std::span<const Introduction> all)
    : Rendezvous(without_address(rank, all.size())) {
  const bool alone = std::all_of(all.begin(), all.end(), [&](const Introduction& other) {
    return other.shares_loopback(mine_);
  });
  listen_near(alone ? InternetAddress::loopback() : InternetAddress{});
}

/// Listens at an address of this host, or everywhere if it is not known.
void Rendezvous::listen_near(const InternetAddress& address) {
  listeners_ = listen_at(std::span(&address, address.known() ? 1 : 0), 0);
  if (listeners_.empty()) refuse_connections("listen");
  mine_.port = port_of(listeners_[0]);
  if (address.known()) mine_.listen_at(std::span(&address, 1));
}

std::string Rendezvous::warning() const {
  if (rank_ != 0 || listeners_.empty()) return {};
  const bool inside = mine_.everywhere == 0 && mine_.addresses[0].is_loopback();
  if (inside || !key_.empty()) return {};
  return fmt::format(
      "HELIOGRAPH_RUN_KEY is not set: while the ranks meet, whoever reaches port {} of this host{} "
      "can take the place of a rank, read rows and change results; give all ranks the same random "
      "text",
      mine_.port,
      mine_.everywhere != 0 ? " at any of its addresses, as MASTER_ADDR does not name one of them,"
                            : "");
}

std::vector<Introduction> Rendezvous::introduce(double seconds, const Check& check,
                                                const LogCallback& log) {
  if (ranks_ == 1) return {mine_};
  introducing_ = true;
  all_.assign(static_cast<std::size_t>(ranks_), {});
  members_.resize(all_.size());
  expect(1);
  bool silent = static_cast<bool>(log);
  const double late = monotonic_seconds() + kSilentSeconds;
  const auto check_and_log = [&] {
    if (silent && monotonic_seconds() > late) {
      silent = false;
      log(LogLevel::info, whom_it_awaits());
    }
    if (check) check();
  };
  turn_until([&] { return missing_ == 0; }, seconds, check_and_log, [&] { end_uncalled(seconds); });
  if (rank_ == 0) {
    all_[0] = mine_;
    for (int r = 1; r < ranks_; ++r) {
      send(member(r).connection, HandshakeHeader::Kind::table, r, 0,
           std::as_bytes(std::span(all_)));
    }
  } else {
    turn_until([&] { return all_[0].port != 0; }, seconds + kReportSeconds, check,
               [&] {
                 throw_error(ErrorCode::peer_lost, "{} did not meet all ranks within {}", rank_0(),
                             describe_seconds(seconds));
               });
  }
  return all_;
}

std::vector<std::vector<Socket>> Rendezvous::connect(std::span<const Introduction> all, int links,
                                                     double seconds, const Check& check) {
  introducing_ = false;
  all_.assign(all.begin(), all.end());
  key_ = launch_.key.with(all_[0].token);
  expect(links);
  turn_until([&] { return missing_ == 0; }, seconds, check,
             [&] {
               end_without(
                   first_missing(),
                   "cannot be reached by TCP: firewalls between the hosts of a run must allow "
                   "connections to ports that the system chooses");
             });
  listeners_.clear();
  if (!members_.empty()) confirm(seconds, check);
  std::vector<std::vector<Socket>> sockets(static_cast<std::size_t>(links));
  for (std::size_t i = 0; i < peer_links_.size(); ++i) {
    sockets[i % sockets.size()].push_back(std::move(peer_links_[i].socket));
  }
  return sockets;
}

/// Every rank reports to rank 0 that it has its connections. When all have reported, rank 0 tells
/// all of them. Until then neither side may close a connection between rank 0 and another rank,
/// since the other side would take that for the end of the process.
void Rendezvous::confirm(double seconds, const Check& check) {
  if (rank_ != 0) {
    send(member(0).connection, HandshakeHeader::Kind::connected, 0, 0);
    std::exception_ptr stop;  // What `check` has thrown.
    double deadline = 0;
    const Check check_once = [&] {
      if (stop && monotonic_seconds() > deadline) std::rethrow_exception(stop);
      if (stop || !check) return;
      try {
        check();
      } catch (...) {
        report_failure();  // Rank 0 may have confirmed before it hears of this: all have met then.
        stop = std::current_exception();
        deadline = monotonic_seconds() + kReportSeconds;
      }
    };
    try {
      turn_until([&] { return member(0).connected; }, seconds + kReportSeconds, check_once,
                 [&] { end_without(0, "did not confirm in time that all ranks are connected"); });
    } catch (...) {
      if (stop) std::rethrow_exception(stop);
      throw;
    }
    return;
  }
  int late = 1;
  const auto all_connected = [&] {
    while (late < ranks_ && member(late).connected) ++late;
    return late == ranks_;
  };
  turn_until(all_connected, seconds, check,
             [&] { end_without(late, "did not confirm in time that it is connected to all"); });
  for (int r = 1; r < ranks_; ++r) {
    send(member(r).connection, HandshakeHeader::Kind::connected, r, 0);
  }
}

void Rendezvous::receive_from(int rank) {
  using Kind = HandshakeHeader::Kind;
  Connection& connection = member(rank).connection;
  connection.flush();
  // Rank 0 closes the connection after it has sent `connected`.
  const auto is_over = [&] { return rank == 0 && member(rank).connected; };
  if (!is_over() && connection.receive(most_bytes())) {
    const Kind kind = connection.header().kind;
    if (kind == Kind::connected) member(rank).connected = true;
    if (rank == 0 && kind == Kind::refused) end_refused(connection.text());
    if (kind == Kind::ended || kind == Kind::stopped) {
      was_told_ = true;
      const std::string why = connection.text();
      throw Error(kind == Kind::stopped ? ErrorCode::interrupted : ErrorCode::peer_lost,
                  why.empty() ? fmt::format("rank {} has given up", rank) : why);
    }
    if (rank == 0 && kind == Kind::table) read_table(connection);
  }
  if (!connection.ended() || is_over()) return;
  if (introduction_of(rank).port != 0) end_without(rank, kEndedEarly);
  throw_error(ErrorCode::peer_lost, "{} {}, or has met another process with RANK {}", rank_0(),
              kEndedEarly, rank_);
}

/// Tells rank 0 of the exception that is being handled, or all others if this is rank 0.
void Rendezvous::report_failure() noexcept {
  using Kind = HandshakeHeader::Kind;
  if (was_told_ && rank_ != 0) return;  // Rank 0 knows.
  try {
    RankFailure failure = current_failure();
    if (!was_told_) failure.text = fmt::format("rank {}: {}", rank_, failure.text);
    const Kind kind = failure.code == ErrorCode::interrupted ? Kind::stopped : Kind::ended;
    const auto tell = [&](Connection& connection) {
      if (connection.socket().open()) send(connection, kind, -1, 0, payload_of(failure.text));
    };
    for (Member& member : members_) tell(member.connection);
    if (!introducing_) return;
    // Ranks that have been answered may take themselves for connected.
    for (Attempt& attempt : attempts_) {
      if (attempt.state == Attempt::State::answered) tell(attempt.connection);
    }
  } catch (...) {
    // There is no memory for a message. The others will notice the closed connections.
  }
}

std::string Rendezvous::rank_0() const {
  return spell_options("--transport tcp: rank 0 at ") +
         describe_endpoint(launch_.address, port_of_rank_0_);
}

/// Where ranks meet rank 0: its endpoint, or the several at which others look for it.
std::string Rendezvous::meeting_place() const {
  if (rank_ == 0) return describe_endpoint(launch_.address, mine_.port);
  const std::vector<std::uint16_t> ports = launch_.ports();
  const std::string first = describe_endpoint(launch_.address, ports.front());
  return ports.size() > 1 ? fmt::format("{} to {}", first, ports.back()) : first;
}

std::string Rendezvous::whom_it_awaits() const {
  if (rank_ != 0) return "waiting for rank 0 at " + meeting_place();
  return fmt::format("waiting for rank {}{} of {} at {}", first_missing(),
                     missing_ > 1 ? fmt::format(" and {} more", missing_ - 1) : "", ranks_,
                     meeting_place());
}

void Rendezvous::end_uncalled(double seconds) {
  if (rank_ != 0) {
    if (!refusal_.empty()) end_refused(refusal_);
    throw_error(ErrorCode::peer_lost,
                "--transport tcp: rank {} did not meet rank 0 at {} within {}: {}", rank_,
                meeting_place(), describe_seconds(seconds), last_);
  }
  std::string text = fmt::format(
      "{}: rank {}{} not called rank 0 at {} within {}", spell_options("--transport tcp"),
      first_missing(), missing_ > 1 ? fmt::format(" and {} more have", missing_ - 1) : " has",
      meeting_place(), describe_seconds(seconds));
  std::string why_none;
  if (addresses_of(launch_.address, why_none).empty()) {
    text += "; MASTER_ADDR cannot be resolved here: " + why_none;
  }
  if (!refused_.empty()) text += "; " + refused_;
  if (short_of_sockets_) text += "; calls were not accepted for want of descriptors (ulimit -n)";
  throw Error(ErrorCode::peer_lost, text);
}

void Rendezvous::end_refused(const std::string& why) const {
  throw_error(ErrorCode::usage, "{} refuses rank {}: {}", rank_0(), rank_, why);
}

void Rendezvous::end_without(int rank, const char* what) {
  throw_error(ErrorCode::peer_lost, "rank {} on host {} {}", rank,
              introduction_of(rank).host_name(), what);
}

int Rendezvous::first_missing() const {
  std::size_t i = 0;
  while (!wants(peer_of(i)) || peer_links_[i].connected) ++i;
  return peer_of(i);
}

std::string describe_endpoint(const std::string& host, std::uint16_t port) {
  const bool number = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", number ? "[" + host + "]" : host, port);
}

}  // namespace heliograph
