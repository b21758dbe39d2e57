// Whom a Rendezvous accepts and whom it refuses.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/rendezvous/rendezvous.hpp"

namespace heliograph {
namespace {

/// Most calls that are accepted in one turn. The callers of earlier turns are served in between.
constexpr int kAcceptedAtOnce = 8;
/// How long a caller that has called is sure to be waited for, in seconds.
constexpr double kSureSeconds = 5e-3;
/// Seconds until the next call is accepted if there was no descriptor for the last.
constexpr double kAcceptRest = 0.05;

}  // namespace

void Rendezvous::accept_some(double now) {
  if (listeners_.empty()) return;
  // Each turn begins at the next listener, so that a flood on one leaves calls to the others.
  std::rotate(listeners_.begin(), listeners_.begin() + 1, listeners_.end());
  int left = kAcceptedAtOnce;
  for (const Socket& listener : listeners_) {
    while (left > 0) {
      const auto strangers = std::count_if(attempts_.begin(), attempts_.end(),
                                           [](const Attempt& a) { return a.is_strange(); });
      if (static_cast<std::size_t>(strangers) > most_strangers_ && !drop_stranger(now)) {
        accepts_at_ = now + kSureSeconds;
        return;
      }
      Socket socket = accept_call(listener);
      if (!socket.open() && lacks_sockets(errno)) {
        if (drop_stranger(now)) continue;
        short_of_sockets_ = true;
        accepts_at_ = now + kAcceptRest;
        return;
      }
      if (!socket.open()) break;
      --left;
      Attempt& attempt = attempts_.emplace_back();
      attempt.connection = Connection(std::move(socket));
      attempt.began = now;
      serve(attempt);  // A rank has usually called by now, so it counts as no silent stranger.
    }
  }
}

/// Drops a caller that has proved nothing: the oldest one that has not called yet, or else one by
/// chance, so that even a slow rank gets through a flood if it calls again and again. Returns false
/// if all have called just now.
bool Rendezvous::drop_stranger(double now) {
  auto victim = std::find_if(attempts_.begin(), attempts_.end(),
                             [](const Attempt& a) { return a.state == Attempt::State::accepted; });
  if (victim == attempts_.end()) {
    std::uint32_t others = 0;
    for (auto i = attempts_.begin(); i != attempts_.end(); ++i) {
      const bool may_go = i->is_strange() && now >= i->began + kSureSeconds;
      if (may_go && random_below(++others) == 0) victim = i;
    }
  }
  if (victim == attempts_.end()) return false;
  attempts_.erase(victim);
  return true;
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
  } else if (call.run != launch_.run_id()) {
    refuse(attempt, Kind::wrong_run, "it is of another run");
  } else if (call.ranks != ranks_) {
    refuse(attempt, Kind::refused,
           fmt::format("its WORLD_SIZE is {} and that of rank {} {}", call.ranks, rank_, ranks_));
  } else if (call.from <= rank_ || call.from >= ranks_) {
    refuse(attempt, Kind::refused, "there is no such rank");
  } else if (call.kind == Kind::call && call.to == rank_ && call.link >= 0 && call.link < links_ &&
             attempt.connection.copy_payload(attempt.handshake.caller)) {
    attempt.handshake.call = call;
    attempt.handshake.listener = random_bytes();
    attempt.state = Attempt::State::challenged;
    send(attempt.connection, Kind::challenge, call.from, call.link, attempt.handshake.listener);
  }
}

void Rendezvous::handle_proof(Attempt& attempt) {
  using enum Handshake::Side;
  const HandshakeHeader& call = attempt.handshake.call;
  const Connection& connection = attempt.connection;
  attempt.state = Attempt::State::over;
  if (connection.header().kind != HandshakeHeader::Kind::proof) return;
  if (!attempt.handshake.proves(connection.payload(), caller, key_)) {
    std::string why = "it does not know the key of this run";
    if (introducing_) {
      why = "its HELIOGRAPH_RUN_KEY is not that of rank 0, and all ranks of a run need the same";
    } else if (launch_.port != 0 &&  // Else no rank has called with the launch's own key.
               attempt.handshake.proves(connection.payload(), caller, launch_.key)) {
      why = fmt::format("all ranks have met already; RANK {} is given to two processes", call.from);
    }
    return refuse(attempt, HandshakeHeader::Kind::refused, why);
  }
  attempt.peer = call.from;
  attempt.link = call.link;
  attempt.state = Attempt::State::answered;
  send(attempt.connection, HandshakeHeader::Kind::answer, attempt.peer, attempt.link,
       attempt.handshake.proof_of(listener, key_));
}

void Rendezvous::refuse(Attempt& attempt, HandshakeHeader::Kind kind, const std::string& why) {
  const int from = attempt.connection.header().from;
  refused_ = fmt::format("rank {} from {} was refused: {}", from,
                         remote_address(attempt.connection.socket()).text(), why);
  send(attempt.connection, kind, from, 0, payload_of(why));
}

}  // namespace heliograph
