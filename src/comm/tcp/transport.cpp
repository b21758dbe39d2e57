#include "comm/tcp/transport.hpp"

#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/processes/communicator.hpp"
#include "comm/rendezvous/rendezvous.hpp"
#include "comm/tcp/links.hpp"
#include "core/throw_error.hpp"

namespace heliograph {

TcpGroup::TcpGroup(const TcpTransportOptions& options) : options_(options) {
  if (!(options.timeout_seconds > 0) || options.piece_bytes == 0) {
    throw_error(ErrorCode::usage,
                "--transport tcp: the timeout must be above 0 and pieces at least 1 byte");
  }
  const LaunchVariables& launch = options_.launch;
  watch_ = std::make_shared<RankWatch>(launch.rank, launch.ranks, options.silence);

  Rendezvous rendezvous(launch);
  const std::vector<Introduction> all =
      rendezvous.introduce(options.timeout_seconds, options.check, options.log);
  warning_ = rendezvous.warning();
  place_ = find_place(launch.rank, all);
  if (launch.local_rank) place_.rank_on_host = *launch.local_rank;
  // The watch's connections come first, then those of the channels.
  std::vector<std::vector<Socket>> sockets =
      rendezvous.connect(all, 1 + kChannels, options.silence.loading, options.check);
  watch_->start(std::move(sockets[0]), all);
  sockets.erase(sockets.begin());
  links_.emplace(launch.ranks, std::move(sockets));
  if (options.on_watch) options.on_watch(watch_);
  become_current();
}

void TcpGroup::run(const std::function<void(Communicator&)>& body) {
  Progress last;
  run_bodies([&](Communicator& comm) {
    body(comm);
    last = comm.progress();
  });
  // Returns when all bodies have ended, as one of them may still fail.
  run_bodies([&](Communicator& comm) {
    comm.set_progress(last);
    barrier(comm, Channel::evaluation);
  });
}

void TcpGroup::run_bodies(const std::function<void(Communicator&)>& body) {
  watch_->throw_if_failed();
  ProcessCommunicator comm(rank(), ranks(), options_.timeout_seconds, options_.piece_bytes,
                           *watch_);
  run_process_rank(comm, *watch_, body, [&] { links_->move(comm); });
}

void TcpGroup::leave() { watch_->say_goodbye(); }

}  // namespace heliograph
