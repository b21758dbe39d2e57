#include "comm/tcp/links.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace heliograph {
namespace {

/// A connection moves at most so many bytes before it is the turn of the next, so turns stay short.
constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;

[[noreturn]] void connection_ended(int peer, Channel channel, const char* why) {
  throw TransportFailure(ErrorCode::peer_lost,
                         fmt::format("the connection to rank {} for the {} channel has ended: {}",
                                     peer, channel_name(channel), why));
}

}  // namespace

TcpLinks::TcpLinks(int ranks, std::vector<std::vector<Socket>> sockets)
    : links_(static_cast<std::size_t>(ranks) * kChannels),
      alarm_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!alarm_.open()) refuse_connections("open an event");
  ring_ = [this] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(alarm_.get(), &one, sizeof(one));
  };
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    link.peer = static_cast<int>(i / kChannels);
    link.channel = static_cast<Channel>(i % kChannels);
    link.socket = std::move(sockets[i % kChannels][i / kChannels]);
  }
  entries_.reserve(links_.size() + 1);
  polled_.reserve(links_.size());
}

void TcpLinks::move(ProcessCommunicator& comm) {
  while (comm.begin_turn()) {
    bool moved = false;
    try {
      while (const auto piece = comm.start()) take(*piece);
      moved = advance(comm);
    } catch (...) {
      comm.end_turn();
      throw;
    }
    comm.end_turn();
    if (moved) {
      look();
    } else {
      sleep(comm);
    }
  }
}

void TcpLinks::take(const Piece& piece) {
  Link& link = links_[static_cast<std::size_t>(piece.end.peer) * kChannels +
                      static_cast<std::size_t>(piece.end.channel)];
  Flow& flow = piece.end.sending ? link.out : link.in;
  flow.pieces.push(piece);
}

/// Moves what can be moved now. True if anything has moved.
bool TcpLinks::advance(ProcessCommunicator& comm) {
  bool moved = false;
  for (Link& link : links_) {
    if (!link.socket.open()) continue;
    if (!link.out.pieces.empty() && link.out.may_move) moved |= move_some(link, true, comm);
    if (!link.in.pieces.empty() && link.in.may_move) moved |= move_some(link, false, comm);
  }
  return moved;
}

bool TcpLinks::move_some(Link& link, bool sending, ProcessCommunicator& comm) {
  Flow& flow = sending ? link.out : link.in;
  std::size_t total = 0;
  while (!flow.pieces.empty() && total < kBytesAtOnce) {
    const Piece& piece = flow.pieces[0];
    if (flow.left == 0) {  // A message begins.
      flow.left = piece.message_bytes;
      flow.sized = 0;
      const std::uint64_t size = piece.message_bytes;
      if (sending) std::memcpy(flow.size.data(), &size, sizeof(size));
    }
    const std::size_t unsized = flow.size.size() - flow.sized;
    std::size_t moved = move_bytes(link, sending, flow, piece.bytes - flow.done);
    if (moved == 0) break;
    total += moved;
    const std::size_t of_size = std::min(moved, unsized);
    flow.sized += of_size;
    moved -= of_size;
    if (!sending && of_size > 0 && flow.sized == flow.size.size()) {
      std::uint64_t size = 0;
      std::memcpy(&size, flow.size.data(), sizeof(size));
      if (size != piece.message_bytes) {
        comm.refuse(piece, size);
        return true;
      }
    }
    flow.done += moved;
    flow.left -= moved;
    if (flow.done < piece.bytes) continue;
    const Piece whole = piece;
    flow.pieces.pop();
    flow.done = 0;
    comm.finish(whole);
  }
  return total > 0;
}

std::size_t TcpLinks::move_bytes(const Link& link, bool sending, Flow& flow, std::size_t bytes) {
  // The size and the first bytes in one call, and in one packet.
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  const std::size_t unsized = flow.size.size() - flow.sized;
  if (unsized > 0) parts[count++] = {flow.size.data() + flow.sized, unsized};
  parts[count++] = {flow.pieces[0].data + flow.done, std::min(bytes, kBytesAtOnce)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t moved = sending ? sendmsg(link.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                                : recvmsg(link.socket.get(), &message, MSG_DONTWAIT);
  if (moved > 0) return static_cast<std::size_t>(moved);
  if (moved == 0) connection_ended(link.peer, link.channel, "its other end was closed");
  if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
    connection_ended(link.peer, link.channel, std::strerror(errno));
  }
  flow.may_move = false;
  return 0;
}

/// Lists for poll() the connections that have pieces but could not move them.
void TcpLinks::list_waiting() {
  entries_.assign(1, {alarm_.get(), POLLIN, 0});
  polled_.clear();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const Link& link = links_[i];
    if (!link.socket.open()) continue;
    short events = 0;
    if (!link.in.pieces.empty() && !link.in.may_move) events |= POLLIN;
    if (!link.out.pieces.empty() && !link.out.may_move) events |= POLLOUT;
    if (events == 0) continue;
    entries_.push_back({link.socket.get(), events, 0});
    polled_.push_back(i);
  }
}

void TcpLinks::note_ready() {
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    const short events = entries_[i + 1].revents;
    Link& link = links_[polled_[i]];
    const bool ended = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    if (ended || (events & POLLIN) != 0) link.in.may_move = true;
    if (ended || (events & POLLOUT) != 0) link.out.may_move = true;
  }
}

/// Polls without waiting: while some connections move all the time, others may become ready.
void TcpLinks::look() {
  list_waiting();
  if (!polled_.empty() && poll(entries_.data(), entries_.size(), 0) > 0) note_ready();
}

void TcpLinks::sleep(ProcessCommunicator& comm) {
  list_waiting();
  if (!comm.fall_asleep(ring_)) return;
  const int ready = poll(entries_.data(), entries_.size(), -1);
  const int error = errno;
  comm.wake_up();
  if (ready < 0 && error != EINTR) {
    errno = error;
    refuse_connections("wait for messages");
  }
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(alarm_.get(), &ignored, sizeof(ignored));
  if (ready > 0) note_ready();
}

}  // namespace heliograph
