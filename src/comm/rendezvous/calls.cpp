// How the ranks of a Rendezvous call and answer each other until every PeerLink is connected.
#include <fmt/format.h>

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
/// How long a rank that one of several ports refuses looks for rank 0 at the others, in seconds.
constexpr double kRefusedSeconds = 3;
/// How long a caller may take to prove that it knows the key, in seconds.
constexpr double kStrangerSeconds = 2;
/// Largest payload that is taken from somebody who has not proved anything, except for texts.
constexpr std::size_t kMostStrangeBytes = 64;

constexpr const char* kNoRank = "what listens there is not a rank of this program";

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
  const double rest = accepts_at_ - monotonic_seconds();
  const bool accepts = (!introducing_ || rank_ == 0) && rest <= 0;
  if (rest > 0) seconds = std::min(seconds, rest);
  entries_.clear();
  const std::size_t listeners = listeners_.size();  // A message may make this rank listen.
  for (const Socket& listener : listeners_) {
    entries_.push_back({accepts ? listener.get() : -1, POLLIN, 0});
  }
  for (const Attempt& attempt : attempts_) {
    entries_.push_back(attempt.connection.entry());
    if (attempt.state == Attempt::State::connecting) entries_.back().events = POLLOUT;
  }
  for (const Member& member : members_) entries_.push_back(member.connection.entry());
  if (poll(entries_.data(), entries_.size(), static_cast<int>(std::ceil(seconds * 1e3))) < 0) {
    if (errno != EINTR) refuse_connections("wait for the other ranks");
    return;
  }
  const pollfd* entry = entries_.data() + listeners;
  for (Attempt& attempt : attempts_) {
    if (entry++->revents != 0) serve(attempt);
  }
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    if (entry++->revents != 0) receive_from(rank);
  }
  const double now = monotonic_seconds();
  const auto calls = std::span(entries_).first(listeners);
  if (std::any_of(calls.begin(), calls.end(), [](const pollfd& e) { return e.revents != 0; })) {
    accept_some(now);
  }
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
    attempt.handshake.caller = random_bytes();
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
    if (there.everywhere != 0 && there.shares_loopback(here)) {
      return {{InternetAddress::loopback(), there.port}};
    }
    for (const InternetAddress& address : there.addresses) add(address, there.port);
    return found;
  }
  // The name is resolved at every call, since it may become known later.
  std::string why_none;
  for (const InternetAddress& address : addresses_of(launch_.address, why_none)) {
    for (const std::uint16_t port : launch_.ports()) add(address, port);
  }
  if (found.empty()) last_ = "MASTER_ADDR cannot be resolved: " + why_none;
  return found;
}

void Rendezvous::serve(Attempt& attempt) {
  using enum Attempt::State;
  Connection& connection = attempt.connection;
  if (attempt.state == connecting) {
    const int error = call_error(connection.socket());
    if (error != 0) return give_up(attempt, std::strerror(error));
    attempt.state = called;
    send(connection, HandshakeHeader::Kind::call, attempt.peer, attempt.link,
         attempt.handshake.caller);
    return;
  }
  connection.flush();
  const std::size_t most = attempt.state == answered ? most_bytes()
                           : calls(attempt)          ? kMostTextBytes
                                                     : kMostStrangeBytes;
  // One message a turn, so that a caller that sends without end holds up nobody.
  if (attempt.state != over && connection.receive(most)) receive_message(attempt);
  if (connection.ended()) give_up(attempt, kNoRank);
}

void Rendezvous::receive_message(Attempt& attempt) {
  using enum Attempt::State;
  switch (attempt.state) {
    case accepted:
      return handle_call(attempt);
    case challenged:
      return handle_proof(attempt);
    case called:
    case proved:
      return handle_answer(attempt);
    default:
      if (attempt.connection.header().kind == HandshakeHeader::Kind::choose) {
        return take_connection(attempt);
      }
      attempt.state = over;
  }
}

/// A rank that was called has sent its challenge, then its own proof, or refuses the call.
void Rendezvous::handle_answer(Attempt& attempt) {
  using Kind = HandshakeHeader::Kind;
  using enum Handshake::Side;
  Connection& connection = attempt.connection;
  Handshake& handshake = attempt.handshake;
  const HandshakeHeader& answer = connection.header();
  const bool has_proved = attempt.state == Attempt::State::proved;
  if (answer.magic != HandshakeHeader::kMagic) return give_up(attempt, kNoRank);
  if (answer.kind == Kind::wrong_run) return give_up(attempt, "another run meets there");
  if (answer.kind == Kind::refused) {
    const std::string why = connection.text();
    if (introducing_) {
      port_of_rank_0_ = attempt.port;
      // Whoever refuses has proved nothing, and strangers may listen at other ports of the list.
      const double now = monotonic_seconds();
      if (refusal_.empty()) refused_at_ = now;
      refusal_ = why;
      if (launch_.ports().size() == 1 || now > refused_at_ + kRefusedSeconds) end_refused(why);
    }
    return give_up(attempt, why);
  }
  if (answer.kind != (has_proved ? Kind::answer : Kind::challenge))
    return give_up(attempt, kNoRank);
  if (!has_proved) {
    if (!connection.copy_payload(handshake.listener)) return give_up(attempt, kNoRank);
    handshake.call = header(Kind::call, attempt.peer, attempt.link);
    handshake.call.bytes = sizeof(handshake.caller);
    attempt.state = Attempt::State::proved;
    send(connection, Kind::proof, attempt.peer, attempt.link, handshake.proof_of(caller, key_));
    return;
  }
  if (!handshake.proves(connection.payload(), listener, key_)) {
    return give_up(attempt, "what listens there does not know the run's key");
  }
  if (peer_link_of(attempt.peer, attempt.link).connected) return;
  if (introducing_) {
    port_of_rank_0_ = attempt.port;
    const InternetAddress here = local_address(connection.socket());
    listen_near(here.is_loopback() && !launch_.names_this_host() ? InternetAddress{} : here);
  }
  const auto payload = std::as_bytes(std::span(&mine_, introducing_ ? 1 : 0));
  if (send(connection, Kind::choose, attempt.peer, attempt.link, payload)) take_connection(attempt);
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
    } else if ((attempt.is_strange() && age > kStrangerSeconds) ||
               (attempt.state == Attempt::State::answered && age > 2 * kAnswerSeconds)) {
      attempt.state = Attempt::State::over;  // A rank has given it up before.
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
  const InternetAddress there = remote_address(connection.socket());
  if (there.known()) all_[0].listen_at(std::span(&there, 1));
}

std::size_t Rendezvous::most_bytes() const {
  return std::max(kMostTextBytes, static_cast<std::size_t>(ranks_) * sizeof(Introduction));
}

HandshakeHeader Rendezvous::header(HandshakeHeader::Kind kind, int to, int link) const {
  HandshakeHeader header;
  header.kind = kind;
  header.from = rank_;
  header.ranks = ranks_;
  header.run = launch_.run_id();
  header.to = to;
  header.link = link;
  return header;
}

bool Rendezvous::send(Connection& connection, HandshakeHeader::Kind kind, int to, int link,
                      std::span<const std::byte> payload) const {
  return connection.send(header(kind, to, link), payload);
}

}  // namespace heliograph
