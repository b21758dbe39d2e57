// How the ranks of a Rendezvous call and answer each other, until every seat has its connection.
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "comm/clock.hpp"
#include "comm/rendezvous/rendezvous.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// Seconds between two calls of `check`.
constexpr double kTurnSeconds = 0.05;
/// Seconds before a rank that was not reached is called again, at first and at most.
constexpr double kFirstRedial = 0.05;
constexpr double kLongestRedial = 0.25;
/// Most ranks that are called at the same time, as descriptors are limited. A call that was not
/// answered within kCallSeconds no longer counts, and it is given up after kAnswerSeconds.
constexpr int kCallsAtOnce = 64;
constexpr double kCallSeconds = 1;
constexpr double kAnswerSeconds = 5;
/// How long a caller may take to say which rank it is.
constexpr double kStrangerSeconds = 2;

constexpr const char* kNoRank = "what listens there is not a rank of this program";

/// Others are to use only this address, unless it is that of loopback.
void be_called_at(Introduction& introduction, const InternetAddress& address) {
  if (address.known() && !address.is_loopback()) introduction.addresses = {address};
}

}  // namespace

/// From now on `links` connections with each rank that is wanted.
void Rendezvous::expect(int links) {
  links_ = links;
  attempts_.clear();
  seats_.clear();
  seats_.resize(static_cast<std::size_t>(links * ranks_));
  const int peers = introducing_ && rank_ != 0 ? 1 : ranks_ - 1;
  missing_ = links * peers;
}

void Rendezvous::turn_until(FunctionRef<bool()> done, double seconds, const Check& check,
                            FunctionRef<void()> end_late) {
  const double deadline = monotonic_seconds() + seconds;
  try {
    while (!done()) {
      const double now = monotonic_seconds();
      if (now >= deadline) end_late();
      if (check) check();
      call_more(now);
      turn(std::min(deadline - now, kTurnSeconds));
    }
  } catch (...) {
    tell_the_end();
    throw;
  }
}

void Rendezvous::turn(double seconds) {
  // Only rank 0 is called while ranks introduce themselves; who calls another rank waits.
  const bool listens = !introducing_ || rank_ == 0;
  entries_.assign(1, {listens ? listener_.get() : -1, POLLIN, 0});
  for (const Attempt& attempt : attempts_) {
    entries_.push_back(attempt.connection.entry());
    if (attempt.state == Attempt::State::connecting) entries_.back().events = POLLOUT;
  }
  for (const Member& member : members_) entries_.push_back(member.connection.entry());
  if (poll(entries_.data(), entries_.size(), static_cast<int>(std::ceil(seconds * 1e3))) < 0) {
    if (errno != EINTR) refuse_connections("wait for the other ranks");
    return;
  }
  const pollfd* entry = &entries_[1];
  for (Attempt& attempt : attempts_) {
    if (entry++->revents != 0) serve(attempt);
  }
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    if (entry++->revents != 0) hear_member(rank);
  }
  const double now = monotonic_seconds();
  if (entries_[0].revents != 0) accept_all(now);
  drop_what_is_over(now);
}

void Rendezvous::call_more(double now) {
  const auto under_way = [&](const Seat& seat) {
    return seat.calls > 0 && now < seat.called_at + kCallSeconds;
  };
  auto busy = std::count_if(seats_.begin(), seats_.end(), under_way);
  const std::size_t first = next_;
  for (std::size_t i = 0; i < seats_.size() && busy < kCallsAtOnce; ++i) {
    const std::size_t index = (first + i) % seats_.size();
    const int peer = peer_of(index);
    Seat& seat = seats_[index];
    if (peer >= rank_ || !wants(peer) || seat.taken || under_way(seat)) continue;
    if (seat.called_at >= 0 && now < seat.called_at + seat.rest) continue;
    seat.called_at = now;
    seat.rest = std::clamp(seat.rest * 1.5, kFirstRedial, kLongestRedial);
    call(peer, static_cast<int>(index) % links_, now);
    next_ = index + 1;
    ++busy;
  }
}

/// At all of a rank's addresses at the same time: which of them leads to it is not known.
void Rendezvous::call(int peer, int link, double now) {
  for (const auto& [address, port] : endpoints_of(peer)) {
    Attempt attempt;
    attempt.connection = Connection(heliograph::call(address, port));
    attempt.state = Attempt::State::connecting;
    attempt.peer = peer;
    attempt.link = link;
    attempt.port = port;
    attempt.began = now;
    if (!attempt.connection.socket().open()) {
      give_up(attempt, std::strerror(errno));
      continue;
    }
    ++seat_of(peer, link).calls;
    attempts_.push_back(std::move(attempt));
  }
}

std::vector<std::pair<InternetAddress, std::uint16_t>> Rendezvous::endpoints_of(int peer) {
  std::vector<std::pair<InternetAddress, std::uint16_t>> found;
  const auto add = [&](const InternetAddress& address, std::uint16_t port) {
    if (address.known()) found.emplace_back(address, port);
  };
  if (!introducing_) {
    const Introduction& there = introduction_of(peer);
    const Introduction& here = introduction_of(rank_);
    if (there.shares_host(here) && there.network == here.network) {
      return {{InternetAddress::loopback(), there.port}};
    }
    for (const InternetAddress& address : there.addresses) add(address, there.port);
    return found;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  // Resolved at every call, since the name may become known later.
  const int status = getaddrinfo(launch_.address.c_str(), nullptr, &hints, &list);
  if (status != 0) {
    last_ = fmt::format("MASTER_ADDR cannot be resolved: {}", gai_strerror(status));
    return {};
  }
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    for (const std::uint16_t port : launch_.ports()) add(InternetAddress::of(*i->ai_addr), port);
  }
  freeaddrinfo(list);
  return found;
}

void Rendezvous::accept_all(double now) {
  while (true) {
    Attempt attempt;
    attempt.connection = Connection(accept_call(listener_));
    if (!attempt.connection.socket().open()) return;
    attempt.began = now;
    attempts_.push_back(std::move(attempt));
  }
}

void Rendezvous::serve(Attempt& attempt) {
  using enum Attempt::State;
  Connection& connection = attempt.connection;
  if (attempt.state == connecting) {
    const int error = call_error(connection.socket());
    if (error != 0) return give_up(attempt, std::strerror(error));
    attempt.state = called;
    say(connection, Greeting::Kind::call, attempt.peer, attempt.link);
    return;
  }
  while (attempt.state != over && connection.hear(most_bytes())) {
    if (attempt.state == accepted) {
      hear_call(attempt);
    } else if (attempt.state == called) {
      hear_answer(attempt);
    } else if (connection.greeting().kind == Greeting::Kind::choose) {
      take_seat(attempt);
    }
  }
  if (connection.ended()) give_up(attempt, kNoRank);
}

void Rendezvous::hear_call(Attempt& attempt) {
  using Kind = Greeting::Kind;
  const Greeting& call = attempt.connection.greeting();
  attempt.state = Attempt::State::over;
  if (call.magic != Greeting::kMagic) {
    refused_ = fmt::format("a stranger from {} was refused",
                           remote_address(attempt.connection.socket()).text());
  } else if (call.version != Greeting::kVersion) {
    refuse(attempt, Kind::refused,
           fmt::format("it speaks version {} and rank {} version {}: start the same build on all "
                       "hosts",
                       call.version, rank_, Greeting::kVersion));
  } else if (call.run != run_) {
    refuse(attempt, Kind::elsewhere, "it is of another run");
  } else if (call.ranks != ranks_) {
    refuse(attempt, Kind::refused,
           fmt::format("its WORLD_SIZE is {} and that of rank {} {}", call.ranks, rank_, ranks_));
  } else if (call.from <= rank_ || call.from >= ranks_) {
    refuse(attempt, Kind::refused, "there is no such rank");
  } else if (call.kind == Kind::call && call.to == rank_ && call.link >= 0 && call.link < links_) {
    attempt.peer = call.from;
    attempt.link = call.link;
    attempt.state = Attempt::State::answered;
    say(attempt.connection, Kind::answer, attempt.peer, attempt.link);
  }
}

void Rendezvous::hear_answer(Attempt& attempt) {
  using Kind = Greeting::Kind;
  Connection& connection = attempt.connection;
  const Greeting& answer = connection.greeting();
  if (answer.magic != Greeting::kMagic) return give_up(attempt, kNoRank);
  if (introducing_) port_of_rank_0_ = attempt.port;
  if (answer.kind == Kind::refused && introducing_) end_refused(connection.text());
  if (answer.kind == Kind::elsewhere) return give_up(attempt, "another run meets there");
  if (answer.kind != Kind::answer || answer.from != attempt.peer) return give_up(attempt, kNoRank);
  if (seat_of(attempt.peer, attempt.link).taken) return;
  Introduction mine = mine_;
  be_called_at(mine, local_address(connection.socket()));
  const auto payload = std::as_bytes(std::span(&mine, introducing_ ? 1 : 0));
  if (say(connection, Kind::choose, attempt.peer, attempt.link, payload)) take_seat(attempt);
}

void Rendezvous::refuse(Attempt& attempt, Greeting::Kind kind, const std::string& why) {
  refused_ = fmt::format("rank {} from {} was refused: {}", attempt.connection.greeting().from,
                         remote_address(attempt.connection.socket()).text(), why);
  say(attempt.connection, kind, attempt.connection.greeting().from, 0, payload_of(why));
}

void Rendezvous::take_seat(Attempt& attempt) {
  Connection& connection = attempt.connection;
  Seat& seat = seat_of(attempt.peer, attempt.link);
  attempt.state = Attempt::State::over;
  if (introducing_ && rank_ == 0) {
    Introduction theirs;
    if (connection.payload().size() != sizeof(theirs)) return;
    std::memcpy(&theirs, connection.payload().data(), sizeof(theirs));
    if (seat.taken) {
      const std::string text =
          fmt::format("RANK {} is given to two processes, on host {} and on host {}", attempt.peer,
                      introduction_of(attempt.peer).host_name(), theirs.host_name());
      refuse(attempt, Greeting::Kind::refused, text);
      throw_error(ErrorCode::usage, "--transport tcp: {}", text);
    }
    introduction_of(attempt.peer) = theirs;
  }
  if (seat.taken) return;
  seat.taken = true;
  --missing_;
  if (introducing_) {
    member(attempt.peer).connection = std::move(connection);
  } else {
    seat.socket = connection.release();
  }
}

void Rendezvous::give_up(Attempt& attempt, const std::string& why) {
  attempt.state = Attempt::State::over;
  if (calls(attempt)) last_ = fmt::format("{} (port {})", why, attempt.port);
}

void Rendezvous::drop_what_is_over(double now) {
  for (Attempt& attempt : attempts_) {
    const double age = now - attempt.began;
    if (calls(attempt) && age > kAnswerSeconds) {
      const bool connecting = attempt.state == Attempt::State::connecting;
      give_up(attempt, connecting ? std::strerror(ETIMEDOUT) : kNoRank);
    } else if (attempt.state == Attempt::State::accepted && age > kStrangerSeconds) {
      attempt.state = Attempt::State::over;
    }
  }
  std::erase_if(attempts_, [&](const Attempt& attempt) {
    const bool mine = calls(attempt);
    const bool over = attempt.state == Attempt::State::over ||
                      (mine && seat_of(attempt.peer, attempt.link).taken);
    if (over && mine) --seat_of(attempt.peer, attempt.link).calls;
    return over;
  });
}

void Rendezvous::read_table(const Connection& connection) {
  if (connection.payload().size() != all_.size() * sizeof(Introduction)) return;
  std::memcpy(all_.data(), connection.payload().data(), connection.payload().size());
  be_called_at(all_[0], remote_address(connection.socket()));
}

std::size_t Rendezvous::most_bytes() const {
  return std::max(kMostTextBytes, static_cast<std::size_t>(ranks_) * sizeof(Introduction));
}

bool Rendezvous::say(Connection& connection, Greeting::Kind kind, int to, int link,
                     std::span<const std::byte> payload) const {
  Greeting greeting;
  greeting.kind = kind;
  greeting.from = rank_;
  greeting.ranks = ranks_;
  greeting.run = run_;
  greeting.to = to;
  greeting.link = link;
  return connection.say(greeting, payload);
}

}  // namespace heliograph
