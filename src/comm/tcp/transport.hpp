#pragma once

#include <functional>
#include <optional>

#include "comm/processes/group.hpp"
#include "comm/rendezvous/launch_variables.hpp"
#include "comm/tcp/links.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

struct TcpTransportOptions : ProcessGroupOptions {
  TcpTransportOptions() { piece_bytes = std::size_t{256} << 10; }

  LaunchVariables launch;
  /// Called now and then while the constructor waits for others. May throw, which ends the
  /// constructor unless all ranks have met meanwhile (Rendezvous::connect).
  std::function<void()> check;
  LogCallback log;  ///< Is told for whom the constructor waits if that takes long; may be empty.
};

/// The group of processes that find each other by variables of their environment, as torchrun sets
/// them, and send their messages over TCP.
/// Collective functions are called by one thread at a time.
class TcpGroup final : public ProcessGroup {
 public:
  /// Throws Error: usage (rank 0 refuses this rank), peer_lost (others did not come in time, or
  /// were lost meanwhile), resource; what `options.check` throws.
  explicit TcpGroup(const TcpTransportOptions& options);

  TransportKind kind() const noexcept override { return TransportKind::tcp; }
  void run(const std::function<void(Communicator&)>& body) override;
  void leave() override;

 private:
  void run_bodies(const std::function<void(Communicator&)>& body);

  const TcpTransportOptions options_;
  std::optional<TcpLinks> links_;
};

}  // namespace heliograph
