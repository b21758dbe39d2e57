#include "comm/rendezvous/tcp_reception.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// For a caller to say who it is; strangers do not.
constexpr double kStrangerSeconds = 2;
constexpr double kTurnSeconds = 0.05;
/// For a rank whose call was not answered in time to call again.
constexpr double kReturnSeconds = 3;
/// For a port to become free: a rank that calls before rank 0 is there may hold it for a moment.
constexpr double kListenSeconds = 2;

Socket listen_for_ranks(const LaunchVariables& launch) {
  const std::vector<std::uint16_t> ports = launch.ports();
  int error = EADDRINUSE;
  for (const double began = monotonic_seconds(); error == EADDRINUSE;) {
    for (const std::uint16_t port : ports) {
      Socket listener = listen_on(port);
      if (listener.open()) return listener;
      error = errno;
      if (error != EADDRINUSE) break;
    }
    if (monotonic_seconds() > began + kListenSeconds) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kTurnSeconds));
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

}  // namespace

TcpReception::TcpReception(const LaunchVariables& launch, const TcpIntroduction& mine)
    : launch_(launch),
      listener_(listen_for_ranks(launch)),
      port_(port_of(listener_)),
      all_(static_cast<std::size_t>(launch.ranks)),
      seats_(static_cast<std::size_t>(launch.ranks)),
      missing_(launch.ranks - 1) {
  all_[0] = mine;
  seats_[0].taken = true;
}

TcpMeeting TcpReception::receive(double seconds, const std::function<void()>& check) {
  seconds_ = seconds;
  const TcpWait wait{monotonic_seconds() + seconds, check};
  try {
    while (missing_ > 0) wait_for_callers(wait);
    tell_all(wait);
  } catch (...) {
    tell_the_end(current_failure().text);
    throw;
  }
  std::vector<Socket> sockets(seats_.size());
  for (Caller& caller : callers_) {
    if (caller.waits)
      sockets[static_cast<std::size_t>(caller.call.rank)] = std::move(caller.socket);
  }
  return {std::move(all_), std::move(sockets)};
}

void TcpReception::wait_for_callers(const TcpWait& wait) {
  if (wait.check) wait.check();
  double now = monotonic_seconds();
  if (now >= wait.deadline) end_late();
  std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
  for (const Caller& caller : callers_) entries.push_back({caller.socket.get(), POLLIN, 0});
  const double slice = std::min(wait.deadline - now, kTurnSeconds);
  if (poll(entries.data(), entries.size(), static_cast<int>(std::ceil(slice * 1e3))) < 0) {
    if (errno != EINTR) refuse_connections("wait for the other ranks");
    return;
  }
  for (std::size_t i = 0; i < callers_.size(); ++i) {
    if (entries[i + 1].revents != 0) hear(callers_[i]);
  }
  now = monotonic_seconds();
  look_for_lost(now);
  std::erase_if(callers_, [&](const Caller& caller) {
    return caller.over || (!caller.waits && now - caller.began > kStrangerSeconds);
  });
  while (entries[0].revents != 0) {
    Caller caller;
    caller.socket = accept_call(listener_);
    if (!caller.socket.open()) break;
    caller.began = now;
    callers_.push_back(std::move(caller));
  }
}

void TcpReception::hear(Caller& caller) {
  if (caller.over) return;  // In the same turn, by a newer call of its rank.
  if (caller.waits || caller.refused) {
    std::array<char, 4096> ignored;
    const ssize_t count = recv(caller.socket.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
    if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return;
    if (caller.waits) lose(caller);
    caller.over = true;
    return;
  }
  const bool knows_call = caller.heard_bytes >= sizeof(TcpCall);
  char* const begin = knows_call ? reinterpret_cast<char*>(&caller.introduction)
                                 : reinterpret_cast<char*>(&caller.call);
  const std::size_t part = knows_call ? sizeof(TcpIntroduction) : sizeof(TcpCall);
  const std::size_t heard = caller.heard_bytes - (knows_call ? sizeof(TcpCall) : 0);
  const ssize_t count = recv(caller.socket.get(), begin + heard, part - heard, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    caller.over = true;
    return;
  }
  caller.heard_bytes += static_cast<std::size_t>(count);
  if (heard + static_cast<std::size_t>(count) == part) understand(caller);
}

void TcpReception::understand(Caller& caller) {
  const TcpCall& call = caller.call;
  if (caller.heard_bytes > sizeof(TcpCall)) {
    place(caller);
    return;
  }
  if (call.magic != TcpCall::kMagic) {
    refused_ = "a stranger from " + remote_address(caller.socket).text();
    caller.over = true;
  } else if (call.version != TcpCall::kVersion ||
             call.introduction_bytes != sizeof(TcpIntroduction)) {
    refuse(caller, TcpAnswer::Word::refused,
           fmt::format("it speaks version {} and rank 0 version {}: start the same build on all "
                       "hosts",
                       call.version, TcpCall::kVersion));
  } else if (call.run != launch_.run_id()) {
    refuse(caller, TcpAnswer::Word::elsewhere, "it is of another run");
  } else if (call.ranks != launch_.ranks) {
    refuse(caller, TcpAnswer::Word::refused,
           fmt::format("its WORLD_SIZE is {} and that of rank 0 {}", call.ranks, launch_.ranks));
  } else if (call.rank < 0 || call.rank >= launch_.ranks) {
    refuse(caller, TcpAnswer::Word::refused, "there is no such rank");
  }
}

void TcpReception::refuse(Caller& caller, TcpAnswer::Word word, const std::string& text) {
  refused_ = fmt::format("rank {} from {}, as {}", caller.call.rank,
                         remote_address(caller.socket).text(), text);
  const TcpAnswer answer = TcpAnswer::of(word, text);
  // So few bytes always fit into the buffer of a new connection.
  [[maybe_unused]] const ssize_t sent =
      send(caller.socket.get(), &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
  // It closes first: what it sends beyond would take the answer back.
  caller.refused = true;
}

/// Of a waiting rank, whose connection has ended.
void TcpReception::lose(const Caller& caller) {
  Seat& seat = seats_[static_cast<std::size_t>(caller.call.rank)];
  seat = {false, monotonic_seconds()};
  ++missing_;
}

/// A rank may call anew if it was not heard in time; one that has ended does not.
void TcpReception::look_for_lost(double now) const {
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (seats_[rank].left_at == 0 || now < seats_[rank].left_at + kReturnSeconds) continue;
    refuse_early_end(static_cast<int>(rank), all_[rank]);
  }
}

void TcpReception::place(Caller& caller) {
  const auto rank = static_cast<std::size_t>(caller.call.rank);
  const auto owner = std::find_if(callers_.begin(), callers_.end(), [&](const Caller& other) {
    return other.waits && !other.over && other.call.rank == caller.call.rank;
  });
  const bool again = owner != callers_.end() && owner->call.token == caller.call.token;
  if (seats_[rank].taken && !again) {
    const std::string text =
        fmt::format("RANK {} is given to two processes, on host {} and on host {}", rank,
                    all_[rank].introduction.address.host_name(),
                    caller.introduction.introduction.address.host_name());
    refuse(caller, TcpAnswer::Word::refused, text);
    throw_error(ErrorCode::usage, "--transport tcp: {}", text);
  }
  if (again) {
    lose(*owner);
    owner->over = true;
  }
  const TcpAnswer answer = TcpAnswer::of(TcpAnswer::Word::wait);
  if (send(caller.socket.get(), &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof(answer))) {
    caller.over = true;  // It has gone, and may call again.
    return;
  }
  all_[rank] = caller.introduction;
  seats_[rank] = {true, 0};
  caller.waits = true;
  --missing_;
}

void TcpReception::end_late() const {
  const auto first =
      std::find_if(seats_.begin(), seats_.end(), [](const Seat& seat) { return !seat.taken; }) -
      seats_.begin();
  std::string text =
      fmt::format("--transport tcp: rank {}{} not called rank 0 at {} within {}", first,
                  missing_ > 1 ? fmt::format(" and {} more have", missing_ - 1) : " has",
                  describe_endpoint(launch_.address, port_), describe_seconds(seconds_));
  if (!refused_.empty()) text += "; refused was " + refused_;
  throw Error(ErrorCode::peer_lost, text);
}

void TcpReception::tell_all(const TcpWait& wait) {
  const TcpAnswer answer = TcpAnswer::of(TcpAnswer::Word::table);
  for (const Caller& caller : callers_) {
    if (!caller.waits) continue;
    const bool told =
        send_all(caller.socket, &answer, sizeof(answer), wait) == TcpMoved::all &&
        send_all(caller.socket, all_.data(), all_.size() * sizeof(all_[0]), wait) == TcpMoved::all;
    if (!told) refuse_early_end(caller.call.rank, caller.introduction);
  }
}

void TcpReception::tell_the_end(const std::string& text) noexcept {
  for (const Caller& caller : callers_) {
    if (caller.waits) heliograph::tell_the_end(caller.socket, text);
  }
}

}  // namespace heliograph
