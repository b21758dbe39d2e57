#pragma once

#include <string>
#include <vector>

#include "comm/rendezvous/tcp_meeting.hpp"

namespace heliograph {

/// Rank 0 while the others call it: hears who they are, and tells all of all. Whoever is no rank of
/// this run is refused, and holds up nobody.
class TcpReception {
 public:
  /// Listens at the first of `launch.ports()` that is free. Throws Error(resource).
  TcpReception(const LaunchVariables& launch, const TcpIntroduction& mine);

  /// Returns when all have called. `check` is called now and then meanwhile and may throw.
  /// Whatever it throws, ranks that have called are told.
  /// Throws Error: peer_lost (names the first rank that did not come within `seconds`, or that
  /// ended meanwhile), usage (two processes are one rank), resource; what `check` throws.
  TcpMeeting receive(double seconds, const std::function<void()>& check);

 private:
  struct Caller {
    Socket socket;
    double began = 0;
    TcpCall call;
    TcpIntroduction introduction;
    std::size_t heard_bytes = 0;
    bool waits = false;    ///< It is a rank of this run.
    bool refused = false;  ///< What it says is not heard any more.
    bool over = false;
  };

  void wait_for_callers(const TcpWait& wait);
  void hear(Caller& caller);
  void understand(Caller& caller);
  void refuse(Caller& caller, TcpAnswer::Word word, const std::string& text);
  void place(Caller& caller);
  void lose(const Caller& caller);
  void look_for_lost(double now) const;
  [[noreturn]] void end_late() const;
  void tell_all(const TcpWait& wait);
  void tell_the_end(const std::string& text) noexcept;

  const LaunchVariables& launch_;
  Socket listener_;
  std::uint16_t port_ = 0;
  double seconds_ = 0;
  std::vector<TcpIntroduction> all_;
  struct Seat {
    bool taken = false;
    double left_at = 0;  ///< Its caller has gone, and may call again; 0: it has not.
  };
  std::vector<Seat> seats_;  ///< By rank.
  int missing_ = 0;
  std::vector<Caller> callers_;
  std::string refused_;  ///< Who was refused last, and why.
};

}  // namespace heliograph
