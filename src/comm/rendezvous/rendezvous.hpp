#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/rendezvous/handshake.hpp"
#include "comm/rendezvous/introduction.hpp"
#include "comm/rendezvous/launch_variables.hpp"
#include "core/function_ref.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// Connects the processes of a run with each other by TCP. Of two ranks, the higher one calls the
/// lower one. All connections are made at the same time, so the others are not held up for long by
/// a slow host, an address that does not respond, or a foreign program at a port.
///
/// A connection counts for nothing until both of its ends have proved that they know the run's key.
/// Callers that have not proved it hold a descriptor and a few hundred bytes each, for 2 seconds at
/// most. Their number is limited; when more call, those that have sent nothing are dropped first.
/// An object is used by one thread.
class Rendezvous {
 public:
  /// A function that is called several times a second while this process waits for others. It may
  /// throw, and it may be empty.
  using Check = std::function<void()>;

  /// For processes that call `introduce`. Rank 0 listens at the first of launch.ports() that is
  /// free, at the addresses of its host that launch.address stands for. Other ranks listen at the
  /// address from which they have reached rank 0, and at a port that the system chooses. A rank
  /// listens at all addresses where it does not know by which one the other hosts know it.
  /// Throws Error(resource).
  explicit Rendezvous(const LaunchVariables& launch);
  /// For processes that have learned each other's introductions by other means, such as MPI.
  /// Listens at port(), which the system chooses: at 127.0.0.1 if that reaches all, else at all
  /// addresses. Throws Error(resource).
  Rendezvous(int rank, std::span<const Introduction> all);

  std::uint16_t port() const { return mine_.port; }
  /// What a user should know about where this process listens; empty if there is nothing.
  std::string warning() const;

  /// Returns the introductions of all ranks, by rank. Collective. Every rank connects to rank 0,
  /// retrying until rank 0 listens; when all have connected, rank 0 sends the whole list to each.
  /// If a rank reached rank 0 over a network, the others connect to its address on that network.
  /// Until `connect` returns, all ranks notice the end of any of them.
  /// Throws Error: usage (rank 0 refuses this rank, or two processes have the same rank), peer_lost
  /// (names the first rank that did not connect within `seconds`, or that has ended), resource;
  /// what `check` throws. Ranks tell each other why they give up: the others then throw that text
  /// after the rank's number, with `interrupted` if that was the code and else with `peer_lost`.
  /// `log` (may be empty) is told once for whom this process waits, if that takes long.
  std::vector<Introduction> introduce(double seconds, const Check& check,
                                      const LogCallback& log = {});

  /// Returns `links` non-blocking connections to each other rank, by link and by rank; the sockets
  /// at this rank's own place are closed. Collective; call it once. After `introduce`, it returns
  /// when all ranks have their connections.
  /// Throws Error: peer_lost (names the first rank that was not reached within `seconds`, or that
  /// has ended), resource; what `check` throws, as `introduce` does. But if a rank has reported to
  /// rank 0 that it is connected, what its `check` throws is dropped if rank 0 lets all go on
  /// within 2 seconds.
  std::vector<std::vector<Socket>> connect(std::span<const Introduction> all, int links,
                                           double seconds, const Check& check = {});

 private:
  /// One of the connections that this process needs.
  struct PeerLink {
    Socket socket;
    bool connected = false;
    int calls = 0;          ///< Attempts of this process that have not ended.
    double called_at = -1;  ///< When this process called last; negative if it has not called.
    double rest = 0;        ///< Seconds from called_at until the next call.
  };
  /// A connection under negotiation, which may become that of a PeerLink.
  struct Attempt {
    /// A caller is connecting, called, proved. A listener has accepted, challenged, answered.
    enum class State : std::uint8_t {
      connecting,
      called,
      proved,
      accepted,
      challenged,
      answered,
      over
    };
    Connection connection;
    State state = State::accepted;
    Handshake handshake;
    /// Negative if not known. This process calls lower ranks; higher ranks call it.
    int peer = -1;
    int link = 0;
    std::uint16_t port = 0;  ///< The port that was called.
    double began = 0;

    /// Whether the other end has called and proved nothing yet.
    bool is_strange() const { return state == State::accepted || state == State::challenged; }
  };
  /// A connection over which a rank has introduced itself. Rank 0 has one with each other rank, and
  /// each of them has one with rank 0.
  struct Member {
    Connection connection;
    bool connected = false;  ///< Whether HandshakeHeader::Kind::connected has been received.
  };

  void expect(int links);
  void turn_until(FunctionRef<bool()> done, double seconds, const Check& check,
                  FunctionRef<void()> throw_missing);
  void turn(double seconds);
  void call_more(double now);
  void call(int peer, int link, double now);
  void accept_some(double now);
  bool drop_stranger(double now);
  void serve(Attempt& attempt);
  void receive_message(Attempt& attempt);
  void handle_call(Attempt& attempt);
  void handle_proof(Attempt& attempt);
  void handle_answer(Attempt& attempt);
  void refuse(Attempt& attempt, HandshakeHeader::Kind kind, const std::string& why);
  void take_connection(Attempt& attempt);
  void give_up(Attempt& attempt, const std::string& why);
  void remove_ended(double now);
  void receive_from(int rank);
  void read_table(const Connection& connection);
  void confirm(double seconds, const Check& check);
  void report_failure() noexcept;

  void listen_near(const InternetAddress& address);
  bool wants(int peer) const { return introducing_ ? (peer == 0) != (rank_ == 0) : peer != rank_; }
  bool calls(const Attempt& attempt) const { return attempt.peer >= 0 && attempt.peer < rank_; }
  int peer_of(std::size_t index) const { return static_cast<int>(index) / links_; }
  PeerLink& peer_link_of(int peer, int link) {
    return peer_links_[static_cast<std::size_t>(peer * links_ + link)];
  }
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  Introduction& introduction_of(int rank) { return all_[static_cast<std::size_t>(rank)]; }
  int first_missing() const;
  std::string meeting_place() const;
  std::string whom_it_awaits() const;
  std::size_t most_bytes() const;
  HandshakeHeader header(HandshakeHeader::Kind kind, int to, int link) const;
  bool send(Connection& connection, HandshakeHeader::Kind kind, int to, int link,
            std::span<const std::byte> payload = {}) const;
  std::vector<std::pair<InternetAddress, std::uint16_t>> endpoints_of(int peer);
  std::string rank_0() const;
  [[noreturn]] void end_uncalled(double seconds);
  [[noreturn]] void end_refused(const std::string& why) const;
  [[noreturn]] void end_without(int rank, const char* what);

  const LaunchVariables launch_;
  const int rank_;
  const int ranks_;
  RunKey key_;
  std::vector<Socket> listeners_;  ///< All at one port.
  double accepts_at_ = 0;          ///< No call is accepted before.
  const std::size_t most_strangers_;
  Introduction mine_;
  bool introducing_ = false;
  std::vector<Introduction> all_;  ///< By rank; the port of an unknown one is 0.
  std::uint16_t port_of_rank_0_ = 0;
  int links_ = 0;
  std::vector<PeerLink> peer_links_;  ///< By rank and link.
  int missing_ = 0;                   ///< The number of needed links that are not connected.
  std::size_t next_ = 0;              ///< Index in peer_links_ from which the next calls are made.
  std::vector<Attempt> attempts_;
  std::vector<Member> members_;  ///< By rank; empty before `introduce`.
  std::vector<pollfd> entries_;
  std::string last_ = "nobody has answered";  ///< Why the last call failed.
  std::string refusal_;                       ///< Why a port of rank 0's list refused this rank.
  double refused_at_ = 0;                     ///< When one did so first.
  std::string refused_;                       ///< The caller that was refused last, and why.
  bool short_of_sockets_ = false;             ///< Whether a call could not be accepted.
  bool was_told_ = false;  ///< Whether another rank has told this one why it gives up.
};

/// A host and a port as text, such as "node1:29500" or "[fd00::2]:29500".
std::string describe_endpoint(const std::string& host, std::uint16_t port);

}  // namespace heliograph
