#include "comm/tcp/transport.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/processes/communicator.hpp"
#include "comm/rendezvous/tcp_meeting.hpp"
#include "comm/tcp/links.hpp"

namespace heliograph {

TcpGroup::TcpGroup(const TcpTransportOptions& options) : options_(options) {
  if (!(options.timeout_seconds > 0) || options.piece_bytes == 0) {
    throw Error(ErrorCode::usage,
                "--transport tcp: the timeout must be above 0 and pieces at least 1 byte");
  }
  const LaunchVariables& launch = options_.launch;
  watch_ = std::make_shared<RankWatch>(launch.rank, launch.ranks, options.silence);

  std::array<ProcessMesh, kChannels> meshes;
  TcpIntroduction mine{introduce(watch_->address()), {}};
  for (std::size_t c = 0; c < meshes.size(); ++c) mine.channels[c] = meshes[c].address();
  const TcpMeeting meeting = introduce_by_tcp(launch, mine, options.timeout_seconds, options.check);
  try {
    connect(meeting, meshes);
  } catch (...) {
    meeting.tell_the_end(current_failure().text);
    throw;
  }
  become_current();
}

void TcpGroup::connect(const TcpMeeting& meeting, std::array<ProcessMesh, kChannels>& meshes) {
  const LaunchVariables& launch = options_.launch;
  const std::vector<TcpIntroduction>& all = meeting.all();
  std::vector<Introduction> introductions;
  for (const TcpIntroduction& one : all) introductions.push_back(one.introduction);
  place_ = find_place(launch.rank, introductions);
  if (launch.local_rank) place_.rank_on_host = *launch.local_rank;
  const auto check_meeting = [&] {
    if (options_.check) options_.check();
    meeting.check();
  };
  watch_->start(addresses_of(introductions), check_meeting);
  if (options_.on_watch) options_.on_watch(watch_);

  const auto check = [&] {
    watch_->throw_if_failed();
    if (options_.check) options_.check();
  };
  std::array<std::vector<Socket>, kChannels> sockets;
  for (std::size_t c = 0; c < meshes.size(); ++c) {
    std::vector<ProcessAddress> addresses;
    for (const TcpIntroduction& one : all) addresses.push_back(one.channels[c]);
    sockets[c] = meshes[c].connect(launch.rank, addresses, options_.timeout_seconds, check);
  }
  links_.emplace(launch.ranks, std::move(sockets));
}

void TcpGroup::run(const std::function<void(Communicator&)>& body) {
  Progress last;
  run_bodies([&](Communicator& comm) {
    body(comm);
    last = comm.progress();
  });
  // Until all bodies have ended: one of them may still fail.
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
