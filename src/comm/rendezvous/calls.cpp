// How the ranks of a Rendezvous call and answer each other until every PeerLink is connected.
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

/// Longest time between two calls of `check`, in seconds.
constexpr double kTurnSeconds = 0.05;
/// Seconds until a rank that was not reached is called again: the first delay and the longest.
constexpr double kFirstRedial = 0.05;
constexpr double kLongestRedial = 0.25;
/// The largest number of links for which calls are made at the same time, as descriptors are
/// limited. A call without an answer no longer counts after kCallSeconds, and is given up after
/// kAnswerSeconds.
constexpr int kCallsAtOnce = 64;
constexpr double kCallSeconds = 1;
constexpr double kAnswerSeconds = 5;
/// How long a caller may take to send its rank, in seconds.
constexpr double kStrangerSeconds = 2;
/// Most callers that have not said which rank they are; the oldest give way to new ones.
constexpr int kMostStrangers = 256;

constexpr const char* kNoRank = "what listens there is not a rank of this program";

/// Makes `address` the only one of an introduction, unless it is a loopback address.
void be_called_at(Introduction& introduction, const InternetAddress& address) {
  if (address.known() && !address.is_loopback()) introduction.addresses = {address};
}

}  // namespace

/// Begins to make `links` connections with each rank to which this rank must connect.
void Rendezvous::expect(int links) {
  links_ = links;
  attempts_.clear();
  peer_links_.clear();
  peer_links_.resize(static_cast<std::size_t>(links * ranks_));
  const int peers = introducing_ && rank_ != 0 ? 1 : ranks_ - 1;
  missing_ = links * peers;
}

void Rendezvous::turn_until(FunctionRef<bool()> done, double seconds, const Check& check,
                            FunctionRef<void()> throw_missing) {
  const double deadline = monotonic_seconds() + seconds;
  try {
    while (!done()) {
      const double now = monotonic_seconds();
      if (now >= deadline) throw_missing();
      if (check) check();
      call_more(now);
      turn(std::min(deadline - now, kTurnSeconds));
    }
  } catch (...) {
    report_failure();
    throw;
  }
}

void Rendezvous::turn(double seconds) {
  // While ranks introduce themselves, only rank 0 accepts calls. Calls of other ranks wait.
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
    if (entry++->revents != 0) receive_from(rank);
  }
  const double now = monotonic_seconds();
  if (entries_[0].revents != 0) accept_all(now);
  remove_ended(now);
}

void Rendezvous::call_more(double now) {
  const auto under_way = [&](const PeerLink& peer_link) {
    return peer_link.calls > 0 && now < peer_link.called_at + kCallSeconds;
  };
  auto busy = std::count_if(peer_links_.begin(), peer_links_.end(), under_way);
  const std::size_t first = next_;
  for (std::size_t i = 0; i < peer_links_.size() && busy < kCallsAtOnce; ++i) {
    const std::size_t index = (first + i) % peer_links_.size();
    const int peer = peer_of(index);
    PeerLink& peer_link = peer_links_[index];
    if (peer >= rank_ || !wants(peer) || peer_link.connected || under_way(peer_link)) continue;
    if (peer_link.called_at >= 0 && now < peer_link.called_at + peer_link.rest) continue;
    peer_link.called_at = now;
    peer_link.rest = std::clamp(peer_link.rest * 1.5, kFirstRedial, kLongestRedial);
    call(peer, static_cast<int>(index) % links_, now);
    next_ = index + 1;
    ++busy;
  }
}

/// Calls all addresses of a rank at the same time, as it is not known which of them can be reached.
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
    ++peer_link_of(peer, link).calls;
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
  // The name is resolved at every call, since it may become known later.
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
  for (int accepted = 0; accepted < kCallsAtOnce; ++accepted) {
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
    send(connection, HandshakeHeader::Kind::call, attempt.peer, attempt.link);
    return;
  }
  connection.flush();
  // One message a turn, so that a caller that sends without end holds up nobody.
  if (attempt.state != over && connection.receive(most_bytes())) {
    if (attempt.state == accepted) {
      handle_call(attempt);
    } else if (attempt.state == called) {
      handle_answer(attempt);
    } else if (connection.header().kind == HandshakeHeader::Kind::choose) {
      take_connection(attempt);
    } else {
      attempt.state = over;
    }
  }
  if (connection.ended()) give_up(attempt, kNoRank);
}

void Rendezvous::handle_call(Attempt& attempt) {
  using Kind = HandshakeHeader::Kind;
  const HandshakeHeader& call = attempt.connection.header();
  attempt.state = Attempt::State::over;
  if (call.magic != HandshakeHeader::kMagic) {
    refused_ = fmt::format("a stranger from {} was refused",
                           remote_address(attempt.connection.socket()).text());
  } else if (call.version != HandshakeHeader::kVersion) {
    refuse(attempt, Kind::refused,
           fmt::format("it speaks version {} and rank {} version {}: start the same build on all "
                       "hosts",
                       call.version, rank_, HandshakeHeader::kVersion));
  } else if (call.run != run_) {
    refuse(attempt, Kind::wrong_run, "it is of another run");
  } else if (call.ranks != ranks_) {
    refuse(attempt, Kind::refused,
           fmt::format("its WORLD_SIZE is {} and that of rank {} {}", call.ranks, rank_, ranks_));
  } else if (call.from <= rank_ || call.from >= ranks_) {
    refuse(attempt, Kind::refused, "there is no such rank");
  } else if (call.kind == Kind::call && call.to == rank_ && call.link >= 0 && call.link < links_) {
    attempt.peer = call.from;
    attempt.link = call.link;
    attempt.state = Attempt::State::answered;
    send(attempt.connection, Kind::answer, attempt.peer, attempt.link);
  }
}

void Rendezvous::handle_answer(Attempt& attempt) {
  using Kind = HandshakeHeader::Kind;
  Connection& connection = attempt.connection;
  const HandshakeHeader& answer = connection.header();
  if (answer.magic != HandshakeHeader::kMagic) return give_up(attempt, kNoRank);
  if (answer.kind == Kind::wrong_run) return give_up(attempt, "another run meets there");
  const bool refused = answer.kind == Kind::refused && introducing_;
  const bool fits = answer.kind == Kind::answer && answer.run == run_ && answer.to == rank_ &&
                    answer.from == attempt.peer && answer.link == attempt.link;
  if (!refused && !fits) return give_up(attempt, kNoRank);
  if (introducing_) port_of_rank_0_ = attempt.port;
  if (refused) end_refused(connection.text());
  if (peer_link_of(attempt.peer, attempt.link).connected) return;
  Introduction mine = mine_;
  be_called_at(mine, local_address(connection.socket()));
  const auto payload = std::as_bytes(std::span(&mine, introducing_ ? 1 : 0));
  if (send(connection, Kind::choose, attempt.peer, attempt.link, payload)) take_connection(attempt);
}

void Rendezvous::refuse(Attempt& attempt, HandshakeHeader::Kind kind, const std::string& why) {
  refused_ = fmt::format("rank {} from {} was refused: {}", attempt.connection.header().from,
                         remote_address(attempt.connection.socket()).text(), why);
  send(attempt.connection, kind, attempt.connection.header().from, 0, payload_of(why));
}

void Rendezvous::take_connection(Attempt& attempt) {
  Connection& connection = attempt.connection;
  PeerLink& peer_link = peer_link_of(attempt.peer, attempt.link);
  attempt.state = Attempt::State::over;
  if (introducing_ && rank_ == 0) {
    Introduction theirs;
    if (connection.payload().size() != sizeof(theirs)) return;
    std::memcpy(&theirs, connection.payload().data(), sizeof(theirs));
    if (peer_link.connected) {
      const std::string text =
          fmt::format("RANK {} is given to two processes, on host {} and on host {}", attempt.peer,
                      introduction_of(attempt.peer).host_name(), theirs.host_name());
      refuse(attempt, HandshakeHeader::Kind::refused, text);
      throw_error(ErrorCode::usage, "--transport tcp: {}", text);
    }
    introduction_of(attempt.peer) = theirs;
  }
  if (peer_link.connected) return;
  peer_link.connected = true;
  --missing_;
  if (introducing_) {
    member(attempt.peer).connection = std::move(connection);
  } else {
    peer_link.socket = connection.release();
  }
}

void Rendezvous::give_up(Attempt& attempt, const std::string& why) {
  attempt.state = Attempt::State::over;
  if (calls(attempt)) last_ = fmt::format("{} (port {})", why, attempt.port);
}

void Rendezvous::remove_ended(double now) {
  for (Attempt& attempt : attempts_) {
    const double age = now - attempt.began;
    if (calls(attempt) && age > kAnswerSeconds) {
      const bool connecting = attempt.state == Attempt::State::connecting;
      give_up(attempt, connecting ? std::strerror(ETIMEDOUT) : kNoRank);
    } else if (attempt.state == Attempt::State::answered && age > 2 * kAnswerSeconds) {
      attempt.state = Attempt::State::over;  // The caller has given it up before.
    }
  }
  int strangers = 0;
  for (auto attempt = attempts_.rbegin(); attempt != attempts_.rend(); ++attempt) {
    if (attempt->state != Attempt::State::accepted) continue;
    if (++strangers > kMostStrangers || now - attempt->began > kStrangerSeconds) {
      attempt->state = Attempt::State::over;
    }
  }
  std::erase_if(attempts_, [&](const Attempt& attempt) {
    const bool mine = calls(attempt);
    const bool over = attempt.state == Attempt::State::over ||
                      (mine && peer_link_of(attempt.peer, attempt.link).connected);
    if (over && mine) --peer_link_of(attempt.peer, attempt.link).calls;
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

bool Rendezvous::send(Connection& connection, HandshakeHeader::Kind kind, int to, int link,
                      std::span<const std::byte> payload) const {
  HandshakeHeader header;
  header.kind = kind;
  header.from = rank_;
  header.ranks = ranks_;
  // The run's number is secret to callers that are refused.
  const bool refuses =
      kind == HandshakeHeader::Kind::refused || kind == HandshakeHeader::Kind::wrong_run;
  header.run = refuses ? 0 : run_;
  header.to = to;
  header.link = link;
  return connection.send(header, payload);
}

}  // namespace heliograph
