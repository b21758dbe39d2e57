#include "comm/tcp_meeting.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "comm/link_tickets.hpp"

namespace heliograph {
namespace {

/// For the rest of a word that has begun.
constexpr double kWordSeconds = 1;

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
      const TcpWait wait{link_now() + kWordSeconds, none};
      if (receive_all(sockets_[0], &answer, sizeof(answer), wait) == TcpMoved::all) {
        answer.text.back() = 0;
        throw Error(ErrorCode::peer_lost, answer.text.data());
      }
    }
    throw Error(ErrorCode::peer_lost, "rank " + std::to_string(rank) + " on host " +
                                          all_[rank].introduction.address.host_name() +
                                          " has ended before all ranks had met");
  }
}

void TcpMeeting::tell_the_end(const std::string& text) const noexcept {
  if (sockets_.empty() || sockets_[0].open()) return;
  for (const Socket& socket : sockets_) {
    if (socket.open()) heliograph::tell_the_end(socket, text);
  }
}

}  // namespace heliograph
