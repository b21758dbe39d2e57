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

namespace heliograph {

/// Connects the processes of a run with each other by TCP. Of two ranks the higher one calls the
/// lower one. All connections are made at the same time, so a slow host, an address that swallows
/// packets or a stranger at the port does not hold up the others for long.
/// Used by one thread.
class Rendezvous {
 public:
  /// Called several times a second while others are waited for. May throw; may be empty.
  using Check = std::function<void()>;

  /// For processes that call `introduce`. Rank 0 listens at the first of launch.ports() that is
  /// free, other ranks at a port that the system chooses. Throws Error(resource).
  explicit Rendezvous(const LaunchVariables& launch);
  /// For processes that learn each other's introductions by other means, such as MPI. Listens at a
  /// port that the system chooses. Throws Error(resource).
  Rendezvous(int rank, int ranks);

  /// The introduction of this process.
  const Introduction& introduction() const { return mine_; }

  /// Returns the introductions of all ranks, by rank. Collective. Ranks call rank 0 repeatedly
  /// until it listens; when all have called, rank 0 sends each of them all introductions. The other
  /// ranks call a rank at the address from which it reached rank 0. From here until `connect`
  /// returns, all ranks notice if a process ends.
  /// Throws Error: usage (rank 0 refuses this rank, or two processes are one rank), peer_lost
  /// (names the first rank that did not call within `seconds`, or that has ended), resource; what
  /// `check` throws, which rank 0 tells the others.
  std::vector<Introduction> introduce(double seconds, const Check& check);

  /// Returns `links` non-blocking connections to each other rank, by link and by rank; those of
  /// this rank to itself are closed. Collective; called once. After `introduce`, it returns when
  /// all ranks have their connections.
  /// Throws Error: peer_lost (names the first rank that was not reached within `seconds`, or that
  /// has ended), resource; what `check` throws, as above.
  std::vector<std::vector<Socket>> connect(std::span<const Introduction> all, int links,
                                           double seconds, const Check& check = {});

 private:
  /// A connection that this process is to have.
  struct Seat {
    Socket socket;
    bool taken = false;
    int calls = 0;          ///< Attempts of this process that are under way.
    double called_at = -1;  ///< When this process called last; below 0: it has not called.
    double rest = 0;        ///< Seconds from called_at until the next call.
  };
  /// A connection that may become that of a seat.
  struct Attempt {
    enum class State : std::uint8_t { connecting, called, accepted, answered, over };
    Connection connection;
    State state = State::accepted;
    int peer = -1;  ///< Below 0: not known. A lower rank is called, a higher one has called.
    int link = 0;
    std::uint16_t port = 0;  ///< The port that was called.
    double began = 0;
  };
  /// A connection over which a rank has introduced itself: rank 0 has one with each other rank, and
  /// they have one with rank 0.
  struct Member {
    Connection connection;
    bool connected = false;  ///< Greeting::Kind::connected was heard.
  };

  void expect(int links);
  void turn_until(FunctionRef<bool()> done, double seconds, const Check& check,
                  FunctionRef<void()> end_late);
  void turn(double seconds);
  void call_more(double now);
  void call(int peer, int link, double now);
  void accept_all(double now);
  void serve(Attempt& attempt);
  void hear_call(Attempt& attempt);
  void hear_answer(Attempt& attempt);
  void refuse(Attempt& attempt, Greeting::Kind kind, const std::string& why);
  void take_seat(Attempt& attempt);
  void give_up(Attempt& attempt, const std::string& why);
  void drop_what_is_over(double now);
  void hear_member(int rank);
  void read_table(const Connection& connection);
  void confirm(double seconds, const Check& check);
  void tell_the_end() noexcept;

  bool wants(int peer) const { return introducing_ ? (peer == 0) != (rank_ == 0) : peer != rank_; }
  bool calls(const Attempt& attempt) const { return attempt.peer >= 0 && attempt.peer < rank_; }
  int peer_of(std::size_t seat) const { return static_cast<int>(seat) / links_; }
  Seat& seat_of(int peer, int link) {
    return seats_[static_cast<std::size_t>(peer * links_ + link)];
  }
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  Introduction& introduction_of(int rank) { return all_[static_cast<std::size_t>(rank)]; }
  int first_missing() const;
  std::size_t most_bytes() const;
  bool say(Connection& connection, Greeting::Kind kind, int to, int link,
           std::span<const std::byte> payload = {}) const;
  std::vector<std::pair<InternetAddress, std::uint16_t>> endpoints_of(int peer);
  std::string rank_0() const;
  [[noreturn]] void end_uncalled(double seconds);
  [[noreturn]] void end_refused(const std::string& why) const;
  [[noreturn]] void end_without(int rank, const char* what);

  const LaunchVariables launch_;
  const int rank_;
  const int ranks_;
  Socket listener_;
  Introduction mine_;
  bool introducing_ = false;
  std::uint64_t run_ = 0;          ///< Which callers of this run know.
  std::vector<Introduction> all_;  ///< By rank; port 0: not known yet.
  std::uint16_t port_of_rank_0_ = 0;
  int links_ = 0;
  std::vector<Seat> seats_;  ///< By rank and link.
  int missing_ = 0;          ///< Seats that are wanted and not taken.
  std::size_t next_ = 0;     ///< The seat from which the next calls are made.
  std::vector<Attempt> attempts_;
  std::vector<Member> members_;  ///< By rank; empty before `introduce`.
  std::vector<pollfd> entries_;
  std::string last_ = "nobody has answered";  ///< Why the last call came to nothing.
  std::string refused_;                       ///< Who was refused last, and why.
};

/// "node1:29500", "[fd00::2]:29500".
std::string describe_endpoint(const std::string& host, std::uint16_t port);

}  // namespace heliograph
