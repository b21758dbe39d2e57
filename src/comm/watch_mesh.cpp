#include "comm/watch_mesh.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <utility>

#include "comm/link_tickets.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace {

/// One address may swallow packets; others are tried after so long.
constexpr double kCallSeconds = 2;

struct Hello {
  std::uint64_t token;
  std::int32_t from;
  std::int32_t to;
};

std::uint64_t machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (std::getline(file, text)) return std::hash<std::string>{}(text);
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return std::hash<std::string>{}(name);
}

std::uint64_t network_id() {
  struct stat status {};
  if (stat("/proc/self/ns/net", &status) != 0) return 0;
  return (static_cast<std::uint64_t>(status.st_dev) << 32) ^
         static_cast<std::uint64_t>(status.st_ino);
}

std::uint64_t random_token() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

void list_interfaces(WatchAddress& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  std::size_t count = 0;
  for (const ifaddrs* i = list; i != nullptr && count < address.addresses.size(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in in{};
    std::memcpy(&in, i->ifa_addr, sizeof(in));
    if ((ntohl(in.sin_addr.s_addr) >> 24) == 127) continue;
    address.addresses[count++] = in.sin_addr.s_addr;
  }
  freeifaddrs(list);
}

void set_up(const Socket& socket) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool ready(int descriptor, short events, double deadline) {
  while (true) {
    const double left = deadline - link_now();
    if (left <= 0) return false;
    pollfd entry{descriptor, events, 0};
    const int count = poll(&entry, 1, static_cast<int>(std::min(left, 60.0) * 1e3) + 1);
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

bool send_hello(const Socket& socket, const Hello& hello) {
  // So few bytes always fit into the buffer of a new connection.
  return send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof(hello));
}

bool receive_hello(const Socket& socket, Hello& hello, double deadline) {
  std::size_t got = 0;
  while (got < sizeof(hello)) {
    if (!ready(socket.get(), POLLIN, deadline)) return false;
    const ssize_t count =
        recv(socket.get(), reinterpret_cast<char*>(&hello) + got, sizeof(hello) - got, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) got += static_cast<std::size_t>(count);
  }
  return true;
}

/// A connection to `address`, if what answers there is the rank that was called.
Socket call(std::uint32_t address, std::uint16_t port, const Hello& hello, double deadline) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return Socket();
  set_up(socket);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = address;
  to.sin_port = htons(port);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    if (errno != EINPROGRESS || !ready(socket.get(), POLLOUT, deadline)) return Socket();
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
      return Socket();
    }
  }
  Hello answer{};
  if (!send_hello(socket, hello) || !receive_hello(socket, answer, deadline)) return Socket();
  if (answer.token != hello.token || answer.from != hello.to || answer.to != hello.from) {
    return Socket();
  }
  return socket;
}

[[noreturn]] void refuse_system(const char* what) {
  throw Error(ErrorCode::resource,
              std::string("the rank watch cannot ") + what + ": " + std::strerror(errno));
}

[[noreturn]] void not_reached(int rank, const WatchAddress& address) {
  throw Error(ErrorCode::peer_lost,
              "rank " + std::to_string(rank) + " on host " + address.host_name() +
                  " cannot be reached by TCP: the rank watch needs a port of the system's choice "
                  "between the hosts of a run");
}

}  // namespace

std::string WatchAddress::host_name() const {
  return {host.data(), strnlen(host.data(), host.size())};
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

WatchMesh::WatchMesh() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (!listener_.open()) refuse_system("open a socket");
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(any);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
    refuse_system("listen");
  }
  fcntl(listener_.get(), F_SETFL, fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  address_.port = ntohs(any.sin_port);
  gethostname(address_.host.data(), address_.host.size() - 1);
  address_.machine = machine_id();
  address_.network = network_id();
  address_.token = random_token();
  list_interfaces(address_);
}

std::vector<Socket> WatchMesh::connect(int rank, std::span<const WatchAddress> all,
                                       double seconds) {
  const double deadline = link_now() + seconds;
  const std::uint64_t token = all[0].token;
  std::vector<Socket> sockets(all.size());
  for (int peer = 0; peer < rank; ++peer) {
    const WatchAddress& there = all[static_cast<std::size_t>(peer)];
    const WatchAddress& here = all[static_cast<std::size_t>(rank)];
    Socket& socket = sockets[static_cast<std::size_t>(peer)];
    const Hello hello{token, rank, peer};
    const bool local = there.machine == here.machine && there.network == here.network;
    if (local) socket = call(htonl(INADDR_LOOPBACK), there.port, hello, deadline);
    while (!socket.open() && link_now() < deadline) {
      for (const std::uint32_t address : there.addresses) {
        if (address == 0 || socket.open()) break;
        socket = call(address, there.port, hello, std::min(deadline, link_now() + kCallSeconds));
      }
      if (!socket.open()) usleep(20'000);
    }
    if (!socket.open()) not_reached(peer, there);
  }
  auto missing = all.size() - static_cast<std::size_t>(rank) - 1;
  while (missing > 0) {
    if (!ready(listener_.get(), POLLIN, deadline)) break;
    Socket socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.open()) continue;
    set_up(socket);
    Hello hello{};
    // A stranger that says nothing must not use up the time of the others.
    if (!receive_hello(socket, hello, std::min(deadline, link_now() + kCallSeconds))) continue;
    if (hello.token != token || hello.to != rank || hello.from <= rank ||
        hello.from >= static_cast<int>(all.size()) ||
        sockets[static_cast<std::size_t>(hello.from)].open()) {
      continue;
    }
    if (!send_hello(socket, {token, rank, hello.from})) continue;
    sockets[static_cast<std::size_t>(hello.from)] = std::move(socket);
    --missing;
  }
  for (std::size_t peer = static_cast<std::size_t>(rank) + 1; peer < all.size(); ++peer) {
    if (!sockets[peer].open()) not_reached(static_cast<int>(peer), all[peer]);
  }
  listener_.close();
  return sockets;
}

}  // namespace heliograph
