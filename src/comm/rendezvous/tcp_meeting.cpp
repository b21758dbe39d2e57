#include "comm/rendezvous/tcp_meeting.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "comm/rendezvous/tcp_reception.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// For an address to answer a call, and for rank 0 to say a first word.
constexpr double kAnswerSeconds = 2;
/// Between two rounds of calls.
constexpr double kFirstRest = 0.02;
constexpr double kLongestRest = 0.25;
/// For the rest of a word that has begun.
constexpr double kWordSeconds = 1;

/// Who is called for messages at only this address, unless that is of its own host alone.
void be_called_at(TcpIntroduction& introduction, const InternetAddress& address) {
  if (!address.known() || address.is_loopback()) return;
  for (ProcessAddress& channel : introduction.channels) {
    channel.addresses = {};
    channel.addresses[0] = address;
  }
}

/// A rank that calls rank 0.
class Caller {
 public:
  Caller(const LaunchVariables& launch, const TcpIntroduction& mine, double seconds,
         const std::function<void()>& check)
      : launch_(launch),
        mine_(mine),
        seconds_(seconds),
        wait_{monotonic_seconds() + seconds, check} {}

  TcpMeeting call_until_answered() {
    double rest = kFirstRest;
    while (true) {
      for (const InternetAddress& address : resolve()) {
        for (const std::uint16_t port : launch_.ports()) {
          if (auto met = call_at(address, port)) return *std::move(met);
        }
      }
      if (wait_.check) wait_.check();
      if (monotonic_seconds() + rest >= wait_.deadline) {
        throw_error(ErrorCode::peer_lost,
                    "--transport tcp: rank {} did not meet rank 0 at {} within {}: {}",
                    launch_.rank, where(), describe_seconds(seconds_), last_);
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(rest));
      rest = std::min(rest * 1.5, kLongestRest);
    }
  }

 private:
  using Word = TcpAnswer::Word;

  std::string where() const {
    const std::vector<std::uint16_t> ports = launch_.ports();
    std::string text = describe_endpoint(launch_.address, ports.front());
    if (ports.size() > 1) text += fmt::format(" to {}", ports.back());
    return text;
  }

  /// Each time anew: a name may not be known yet.
  std::vector<InternetAddress> resolve() {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int status = getaddrinfo(launch_.address.c_str(), nullptr, &hints, &list);
    if (status != 0) {
      last_ = fmt::format("MASTER_ADDR is no address: {}", gai_strerror(status));
      return {};
    }
    std::vector<InternetAddress> found;
    for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
      const InternetAddress address = InternetAddress::of(*i->ai_addr);
      if (address.known()) found.push_back(address);
    }
    freeaddrinfo(list);
    return found;
  }

  std::optional<TcpMeeting> call_at(const InternetAddress& address, std::uint16_t port) {
    Socket socket = call(address, port);
    const TcpWait soon = wait_.at_most(kAnswerSeconds);
    const bool answered = socket.open() && soon.until(socket, POLLOUT);
    const int error = !socket.open() ? errno : answered ? call_error(socket) : ETIMEDOUT;
    if (error != 0) return failed(port, std::strerror(error));

    TcpIntroduction mine = mine_;
    be_called_at(mine, local_address(socket));
    TcpCall call;
    call.rank = launch_.rank;
    call.ranks = launch_.ranks;
    call.run = launch_.run_id();
    call.token = mine.introduction.address.token;
    TcpAnswer answer;
    if (send_all(socket, &call, sizeof(call), soon) != TcpMoved::all ||
        send_all(socket, &mine, sizeof(mine), soon) != TcpMoved::all ||
        receive_all(socket, &answer, sizeof(answer), soon) != TcpMoved::all ||
        answer.magic != TcpAnswer::kMagic) {
      return failed(port, "what listens there is no rank of this program");
    }
    if (answer.word == Word::elsewhere) return failed(port, "another run is met there");
    const std::string there =
        fmt::format("--transport tcp: rank 0 at {}", describe_endpoint(launch_.address, port));
    if (answer.word == Word::refused) {
      throw_error(ErrorCode::usage, "{} refuses rank {}: {}", there, launch_.rank,
                  answer.text.data());
    }
    // From here on rank 0 watches the time, and says for whom it has waited.
    const TcpWait held{monotonic_seconds() + seconds_ + kAnswerSeconds, wait_.check};
    const TcpMoved moved = receive_all(socket, &answer, sizeof(answer), held);
    if (moved == TcpMoved::late) {
      throw_error(ErrorCode::peer_lost, "{} did not meet all ranks within {}", there,
                  describe_seconds(seconds_));
    }
    if (moved == TcpMoved::all && answer.word != Word::table) {
      answer.text.back() = 0;
      throw Error(ErrorCode::peer_lost, answer.text.data());
    }
    std::vector<TcpIntroduction> all(static_cast<std::size_t>(launch_.ranks));
    if (moved != TcpMoved::all ||
        receive_all(socket, all.data(), all.size() * sizeof(all[0]), held) != TcpMoved::all) {
      throw_error(ErrorCode::peer_lost, "{} has ended before all ranks had met", there);
    }
    be_called_at(all[0], remote_address(socket));
    std::vector<Socket> sockets(all.size());
    sockets[0] = std::move(socket);
    return TcpMeeting(std::move(all), std::move(sockets));
  }

  std::nullopt_t failed(std::uint16_t port, const std::string& why) {
    last_ = fmt::format("{} (port {})", why, port);
    return std::nullopt;
  }

  const LaunchVariables& launch_;
  const TcpIntroduction& mine_;
  const double seconds_;
  const TcpWait wait_;
  std::string last_ = "nobody was called";  ///< Why the last call came to nothing.
};

}  // namespace

TcpMeeting::TcpMeeting(std::vector<TcpIntroduction> all, std::vector<Socket> sockets)
    : all_(std::move(all)), sockets_(std::move(sockets)) {}

void TcpMeeting::check() const {
  for (std::size_t rank = 0; rank < sockets_.size(); ++rank) {
    if (!sockets_[rank].open()) continue;
    char first = 0;
    const ssize_t count = recv(sockets_[rank].get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count > 0) {
      if (rank != 0) continue;  // Only rank 0 has anything to say.
      TcpAnswer answer;
      const std::function<void()> none;
      const TcpWait wait{monotonic_seconds() + kWordSeconds, none};
      if (receive_all(sockets_[0], &answer, sizeof(answer), wait) == TcpMoved::all) {
        answer.text.back() = 0;
        throw Error(ErrorCode::peer_lost, answer.text.data());
      }
    }
    refuse_early_end(static_cast<int>(rank), all_[rank]);
  }
}

void TcpMeeting::tell_the_end(const std::string& text) const noexcept {
  if (sockets_.empty() || sockets_[0].open()) return;
  for (const Socket& socket : sockets_) {
    if (socket.open()) heliograph::tell_the_end(socket, text);
  }
}

TcpMeeting introduce_by_tcp(const LaunchVariables& launch, const TcpIntroduction& mine,
                            double seconds, const std::function<void()>& check) {
  if (launch.ranks == 1) return {{mine}, {}};
  if (launch.rank == 0) return TcpReception(launch, mine).receive(seconds, check);
  return Caller(launch, mine, seconds, check).call_until_answered();
}

}  // namespace heliograph
