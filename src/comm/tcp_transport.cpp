#include "comm/tcp_transport.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/process_communicator.hpp"
#include "comm/tcp_introduction.hpp"
#include "comm/tcp_links.hpp"

namespace heliograph {

struct TcpGroup::State {
  TcpTransportOptions options;
  std::shared_ptr<RankWatch> watch;
  std::optional<TcpLinks> links;
};

TcpGroup::TcpGroup(const TcpTransportOptions& options) : state_(std::make_unique<State>()) {
  if (!(options.timeout_seconds > 0) || options.piece_bytes == 0) {
    throw Error(ErrorCode::usage,
                "--transport tcp: the timeout must be above 0 and pieces at least 1 byte");
  }
  State& s = *state_;
  s.options = options;
  const LaunchVariables& launch = s.options.launch;
  s.watch = std::make_shared<RankWatch>(launch.rank, launch.ranks, options.silence);

  std::array<ProcessMesh, kChannels> meshes;
  TcpIntroduction mine{introduce(s.watch->address()), {}};
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
  State& s = *state_;
  const LaunchVariables& launch = s.options.launch;
  const std::vector<TcpIntroduction>& all = meeting.all();
  std::vector<Introduction> introductions;
  for (const TcpIntroduction& one : all) introductions.push_back(one.introduction);
  place_ = find_place(launch.rank, introductions);
  if (launch.local_rank) place_.rank_on_host = *launch.local_rank;
  const auto check_meeting = [&] {
    if (s.options.check) s.options.check();
    meeting.check();
  };
  s.watch->start(addresses_of(introductions), check_meeting);
  if (s.options.on_watch) s.options.on_watch(s.watch);

  const auto check = [&s] {
    s.watch->throw_if_failed();
    if (s.options.check) s.options.check();
  };
  std::array<std::vector<Socket>, kChannels> sockets;
  for (std::size_t c = 0; c < meshes.size(); ++c) {
    std::vector<ProcessAddress> addresses;
    for (const TcpIntroduction& one : all) addresses.push_back(one.channels[c]);
    sockets[c] = meshes[c].connect(launch.rank, addresses, s.options.timeout_seconds, check);
  }
  s.links.emplace(launch.ranks, std::move(sockets));
}

TcpGroup::~TcpGroup() = default;

RankWatch& TcpGroup::watch() noexcept { return *state_->watch; }

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
  State& s = *state_;
  s.watch->throw_if_failed();
  ProcessCommunicator comm(rank(), ranks(), s.options.timeout_seconds, s.options.piece_bytes,
                           *s.watch);
  run_process_rank(comm, *s.watch, body, [&] { s.links->move(comm); });
}

void TcpGroup::leave() { state_->watch->say_goodbye(); }

}  // namespace heliograph
