#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "comm/clock.hpp"
#include "comm/rendezvous/mesh.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// Between two calls of a rank that did not answer, seconds.
constexpr double kRedialSeconds = 0.05;
/// After which a call that nothing came of holds up no other: its address may swallow packets.
constexpr double kCallSeconds = 1;
/// For a caller to say who it is; strangers do not.
constexpr double kStrangerSeconds = 2;
/// Ranks that are called at the same time: descriptors are few.
constexpr int kCallsAtOnce = 64;

[[noreturn]] void not_reached(int rank, const ProcessAddress& address) {
  throw_error(ErrorCode::peer_lost,
              "rank {} on host {} cannot be reached by TCP: ranks need ports of the system's "
              "choice between the hosts of a run",
              rank, address.host_name());
}

/// What two processes say to each other on a new connection: the higher rank calls, the lower one
/// answers, and the higher one chooses one of the connections that were answered.
struct Hello {
  enum class Word : std::int32_t { call = 1, answer, choose };
  std::uint64_t token = 0;
  std::int32_t from = -1;
  std::int32_t to = -1;
  Word word = Word::call;
  std::int32_t unused = 0;
};

/// Makes one rank's connections to all others, all at the same time: a host that is slow, an
/// address that swallows packets or a stranger at the port holds up nobody else for long.
class ProcessMeeting {
 public:
  /// References must outlive it. `listener` is non-blocking.
  ProcessMeeting(int rank, std::span<const ProcessAddress> all, const Socket& listener)
      : rank_(rank),
        all_(all),
        listener_(listener),
        sockets_(all.size()),
        calls_(static_cast<std::size_t>(rank), 0),
        called_at_(static_cast<std::size_t>(rank), -kCallSeconds) {}

  /// Sockets by rank, the own one closed. Throws Error: peer_lost (names the first rank that was
  /// not met within `seconds`), resource (no descriptor is left); what `check` throws, which is
  /// called now and then.
  std::vector<Socket> meet(double seconds, const std::function<void()>& check) {
    const double deadline = monotonic_seconds() + seconds;
    std::vector<pollfd> entries;
    while (!complete()) {
      double now = monotonic_seconds();
      if (now >= deadline) {
        for (std::size_t peer = 0; peer < all_.size(); ++peer) {
          if (static_cast<int>(peer) != rank_ && !sockets_[peer].open()) {
            not_reached(static_cast<int>(peer), all_[peer]);
          }
        }
      }
      if (check) check();
      call_more(now);
      entries.assign(1, {listener_.get(), POLLIN, 0});
      for (const Link& link : links_) {
        const short events = link.state == State::connecting ? POLLOUT : POLLIN;
        entries.push_back({link.socket.get(), events, 0});
      }
      const double rest = std::min(deadline - now, kRedialSeconds);
      if (poll(entries.data(), entries.size(), static_cast<int>(std::ceil(rest * 1e3))) < 0) {
        if (errno != EINTR) refuse_connections("wait for the other ranks");
        continue;
      }
      for (std::size_t i = 0; i < links_.size(); ++i) {
        if (entries[i + 1].revents != 0) serve(links_[i]);
      }
      now = monotonic_seconds();
      if (entries[0].revents != 0) accept_all(now);
      drop_what_is_over(now);
    }
    return std::move(sockets_);
  }

 private:
  enum class State : std::uint8_t { connecting, called, accepted, answered, over };
  struct Link {
    Socket socket;
    State state = State::accepted;
    int peer = -1;  ///< Once it is known.
    double began = 0;
    Hello heard;
    std::size_t heard_bytes = 0;
  };

  bool complete() const { return met_ == sockets_.size() - 1; }
  void call_more(double now) {
    const auto under_way = [&](std::size_t peer) {
      return calls_[peer] > 0 && now < called_at_[peer] + kCallSeconds;
    };
    int busy = 0;
    for (std::size_t peer = 0; peer < calls_.size(); ++peer) busy += under_way(peer) ? 1 : 0;
    for (std::size_t peer = 0; peer < calls_.size() && busy < kCallsAtOnce; ++peer) {
      const bool rests = now < called_at_[peer] + kRedialSeconds;
      if (sockets_[peer].open() || under_way(peer) || rests) continue;
      called_at_[peer] = now;
      call(static_cast<int>(peer), now);
      ++busy;
    }
  }

  /// All addresses of a host at the same time: which of them leads there is not known.
  void call(int peer, double now) {
    const ProcessAddress& there = all_[static_cast<std::size_t>(peer)];
    const ProcessAddress& here = all_[static_cast<std::size_t>(rank_)];
    if (there.machine == here.machine && there.network == here.network) {
      call(peer, InternetAddress::loopback(), now);
      return;
    }
    for (const InternetAddress& address : there.addresses) {
      if (address.known()) call(peer, address, now);
    }
  }

  void call(int peer, const InternetAddress& address, double now) {
    Link link;
    link.socket = heliograph::call(address, all_[static_cast<std::size_t>(peer)].port);
    if (!link.socket.open()) return;
    link.peer = peer;
    link.began = now;
    link.state = State::connecting;
    ++calls_[static_cast<std::size_t>(peer)];
    links_.push_back(std::move(link));
  }

  void accept_all(double now) {
    while (true) {
      Link link;
      link.socket = accept_call(listener_);
      if (!link.socket.open()) return;
      link.began = now;
      links_.push_back(std::move(link));
    }
  }

  void serve(Link& link) {
    if (link.state == State::connecting) {
      const bool connected = call_error(link.socket) == 0;
      link.state = connected && say(link, Hello::Word::call) ? State::called : State::over;
      return;
    }
    if (hear(link)) understand(link);
  }

  bool say(const Link& link, Hello::Word word) const {
    const Hello hello{all_[0].token, rank_, link.peer, word, 0};
    // So few bytes always fit into the buffer of a new connection.
    return send(link.socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sizeof(hello));
  }

  /// True once all of a word is there. What follows it on the connection is left there.
  bool hear(Link& link) {
    const ssize_t count =
        recv(link.socket.get(), reinterpret_cast<char*>(&link.heard) + link.heard_bytes,
             sizeof(Hello) - link.heard_bytes, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) link.state = State::over;
    if (count > 0) link.heard_bytes += static_cast<std::size_t>(count);
    if (link.heard_bytes < sizeof(Hello)) return false;
    link.heard_bytes = 0;
    return true;
  }

  void understand(Link& link) {
    const Hello& hello = link.heard;
    const State state = std::exchange(link.state, State::over);
    if (hello.token != all_[0].token || hello.to != rank_) return;
    if (state == State::accepted) {
      if (hello.word != Hello::Word::call || hello.from <= rank_ ||
          hello.from >= static_cast<int>(all_.size())) {
        return;
      }
      link.peer = hello.from;
      if (say(link, Hello::Word::answer)) link.state = State::answered;
      return;
    }
    const bool called = state == State::called;
    const bool wanted = hello.word == (called ? Hello::Word::answer : Hello::Word::choose) &&
                        hello.from == link.peer &&
                        !sockets_[static_cast<std::size_t>(link.peer)].open();
    if (wanted && (!called || say(link, Hello::Word::choose))) keep(link);
  }

  void keep(Link& link) {
    sockets_[static_cast<std::size_t>(link.peer)] = std::move(link.socket);
    ++met_;
  }

  void drop_what_is_over(double now) {
    std::erase_if(links_, [&](const Link& link) {
      const bool mine = link.peer >= 0 && link.peer < rank_;
      const bool over = link.state == State::over ||
                        (mine && sockets_[static_cast<std::size_t>(link.peer)].open()) ||
                        (link.state == State::accepted && now - link.began > kStrangerSeconds);
      if (over && mine) --calls_[static_cast<std::size_t>(link.peer)];
      return over;
    });
  }

  const int rank_;
  const std::span<const ProcessAddress> all_;
  const Socket& listener_;
  std::vector<Socket> sockets_;
  std::size_t met_ = 0;
  std::vector<Link> links_;
  std::vector<int> calls_;         ///< Links under way to each lower rank.
  std::vector<double> called_at_;  ///< When each lower rank was called last.
};

}  // namespace

std::vector<Socket> ProcessMesh::connect(int rank, std::span<const ProcessAddress> all,
                                         double seconds, const std::function<void()>& check) {
  std::vector<Socket> sockets = ProcessMeeting(rank, all, listener_).meet(seconds, check);
  listener_.close();
  return sockets;
}

}  // namespace heliograph
