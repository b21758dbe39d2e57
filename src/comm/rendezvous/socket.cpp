#include "comm/rendezvous/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kIpv4At = 12;  ///< Where the IPv4 bytes begin in a mapped address.

void set_up(const Socket& socket) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/// An IPv4 or IPv6 socket address, and its length.
struct SocketAddress {
  SocketAddress() = default;
  SocketAddress(const InternetAddress& address, std::uint16_t port) {
    if (address.is_ipv4()) {
      sockaddr_in in{};
      in.sin_family = AF_INET;
      in.sin_port = htons(port);
      std::memcpy(&in.sin_addr, address.bytes.data() + kIpv4At, sizeof(in.sin_addr));
      set(in);
    } else {
      sockaddr_in6 in{};
      in.sin6_family = AF_INET6;
      in.sin6_port = htons(port);
      std::memcpy(&in.sin6_addr, address.bytes.data(), sizeof(in.sin6_addr));
      set(in);
    }
  }

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }

  InternetAddress address() { return InternetAddress::of(*get()); }

  std::uint16_t port() const {
    // The port lies at the same offset in both families.
    sockaddr_in in{};
    std::memcpy(&in, &storage, sizeof(in));
    return ntohs(in.sin_port);
  }

  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

 private:
  template <class Address>
  void set(const Address& in) {
    std::memcpy(&storage, &in, sizeof(in));
    length = sizeof(in);
  }
};

/// Closes the socket and keeps errno.
void give_up(Socket& socket) {
  const int error = errno;
  socket.close();
  errno = error;
}

/// The result of getsockname or getpeername for a socket; nothing if the call fails.
std::optional<SocketAddress> ask(int (*name)(int, sockaddr*, socklen_t*), const Socket& socket) {
  SocketAddress at;
  if (name(socket.get(), at.get(), &at.length) != 0) return std::nullopt;
  return at;
}

Socket listen_at(int family, const InternetAddress& address, std::uint16_t port) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return socket;
  const int on = 1, off = 0;
  // A run may start on the port of a run that has just ended.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == AF_INET6) {
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  SocketAddress at(address, port);
  if (bind(socket.get(), at.get(), at.length) != 0 || listen(socket.get(), SOMAXCONN) != 0) {
    give_up(socket);
  }
  return socket;
}

}  // namespace

void refuse_connections(const char* what) {
  throw_error(ErrorCode::resource, "the connections between ranks: cannot {}: {}", what,
              std::strerror(errno));
}

InternetAddress InternetAddress::of_ipv4(std::uint32_t address) {
  InternetAddress mapped;
  mapped.bytes[kIpv4At - 2] = mapped.bytes[kIpv4At - 1] = 0xff;
  std::memcpy(mapped.bytes.data() + kIpv4At, &address, sizeof(address));
  return mapped;
}

InternetAddress InternetAddress::of(const sockaddr& address) {
  InternetAddress found;
  sa_family_t family{};  // Read by memcpy, since the object at `address` may have another type.
  std::memcpy(&family, &address.sa_family, sizeof(family));
  if (family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof(in));
    return of_ipv4(in.sin_addr.s_addr);
  }
  if (family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof(in));
    std::memcpy(found.bytes.data(), &in.sin6_addr, sizeof(in.sin6_addr));
  }
  return found;
}

InternetAddress InternetAddress::loopback() { return of_ipv4(htonl(INADDR_LOOPBACK)); }

bool InternetAddress::is_ipv4() const {
  const InternetAddress mapped = of_ipv4(0);
  return std::equal(bytes.begin(), bytes.begin() + kIpv4At, mapped.bytes.begin());
}

bool InternetAddress::is_loopback() const {
  if (is_ipv4()) return bytes[kIpv4At] == 127;
  return std::equal(bytes.begin(), bytes.end(), in6addr_loopback.s6_addr);
}

bool InternetAddress::is_link_local() const {
  return !is_ipv4() && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string InternetAddress::text() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (is_ipv4()) {
    inet_ntop(AF_INET, bytes.data() + kIpv4At, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof(text));
  }
  return text;
}

std::vector<InternetAddress> own_addresses() {
  std::vector<InternetAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family) continue;
      const InternetAddress address = InternetAddress::of(*i->ifa_addr);
      if (address.is_loopback() || address.is_link_local()) continue;
      found.push_back(address);
    }
  }
  freeifaddrs(list);
  return found;
}

std::vector<InternetAddress> addresses_of(const std::string& host, std::string& why_none) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (status != 0) {
    why_none = gai_strerror(status);
    return {};
  }
  std::vector<InternetAddress> found;
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    const InternetAddress address = InternetAddress::of(*i->ai_addr);
    const bool again = std::find(found.begin(), found.end(), address) != found.end();
    if (address.known() && !again) found.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

Socket listen_on(std::uint16_t port, const InternetAddress& address) {
  if (address.known()) return listen_at(address.is_ipv4() ? AF_INET : AF_INET6, address, port);
  Socket both = listen_at(AF_INET6, {}, port);
  if (both.open() || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return both;
  return listen_at(AF_INET, InternetAddress::of_ipv4(htonl(INADDR_ANY)), port);
}

std::uint16_t port_of(const Socket& listener) {
  std::optional<SocketAddress> at = ask(getsockname, listener);
  if (!at) refuse_connections("listen");
  return at->port();
}

Socket call(const InternetAddress& address, std::uint16_t port) {
  SocketAddress to(address, port);
  Socket socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return socket;
  set_up(socket);
  // A rank may have to listen at the port from which this call goes out, and closed connections
  // linger there.
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (connect(socket.get(), to.get(), to.length) != 0 && errno != EINPROGRESS) give_up(socket);
  return socket;
}

int call_error(const Socket& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Socket accept_call(const Socket& listener) {
  Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.open()) set_up(socket);
  return socket;
}

bool lacks_sockets(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

InternetAddress local_address(const Socket& socket) {
  return ask(getsockname, socket).value_or(SocketAddress()).address();
}

InternetAddress remote_address(const Socket& socket) {
  return ask(getpeername, socket).value_or(SocketAddress()).address();
}

}  // namespace heliograph
