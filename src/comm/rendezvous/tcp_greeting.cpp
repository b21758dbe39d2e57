#include "comm/rendezvous/tcp_greeting.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>

#include "comm/clock.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

constexpr double kCheckSeconds = 0.05;

}  // namespace

TcpAnswer TcpAnswer::of(Word word, const std::string& text) {
  TcpAnswer answer;
  answer.word = word;
  text.copy(answer.text.data(), kTextBytes - 1);
  return answer;
}

TcpWait TcpWait::at_most(double seconds) const {
  return {std::min(deadline, monotonic_seconds() + seconds), check};
}

bool TcpWait::until(const Socket& socket, short events) const {
  while (true) {
    if (check) check();
    const double left = deadline - monotonic_seconds();
    if (left <= 0) return false;
    pollfd entry{socket.get(), events, 0};
    const double slice = std::min(left, kCheckSeconds);
    const int ready = poll(&entry, 1, static_cast<int>(std::ceil(slice * 1e3)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) refuse_connections("wait for the other ranks");
  }
}

TcpMoved send_all(const Socket& socket, const void* data, std::size_t bytes, const TcpWait& wait) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = send(socket.get(), next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      next += count;
      bytes -= static_cast<std::size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      return TcpMoved::ended;
    } else if (!wait.until(socket, POLLOUT)) {
      return TcpMoved::late;
    }
  }
  return TcpMoved::all;
}

TcpMoved receive_all(const Socket& socket, void* data, std::size_t bytes, const TcpWait& wait) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = recv(socket.get(), next, bytes, MSG_DONTWAIT);
    if (count > 0) {
      next += count;
      bytes -= static_cast<std::size_t>(count);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return TcpMoved::ended;
    } else if (!wait.until(socket, POLLIN)) {
      return TcpMoved::late;
    }
  }
  return TcpMoved::all;
}

void refuse_early_end(int rank, const TcpIntroduction& introduction) {
  throw_error(ErrorCode::peer_lost, "rank {} on host {} has ended before all ranks had met", rank,
              introduction.introduction.address.host_name());
}

void tell_the_end(const Socket& socket, const std::string& text) noexcept {
  TcpAnswer answer;
  answer.word = TcpAnswer::Word::ended;
  std::snprintf(answer.text.data(), answer.text.size(), "rank 0: %s", text.c_str());
  [[maybe_unused]] const ssize_t sent =
      send(socket.get(), &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string describe_endpoint(const std::string& host, std::uint16_t port) {
  const bool number = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", number ? "[" + host + "]" : host, port);
}

}  // namespace heliograph
