#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

struct sockaddr;

namespace heliograph {

/// Throws Error(resource): "the connections between ranks: cannot WHAT" and the text of errno.
[[noreturn]] void refuse_connections(const char* what);

using Socket = Descriptor;

/// An IPv6 address, or an IPv4 address mapped to IPv6, as plain bytes. All 0 means no address.
struct InternetAddress {
  std::array<std::uint8_t, 16> bytes{};

  /// Converts an IPv4 address in network byte order.
  static InternetAddress of_ipv4(std::uint32_t address);
  /// Converts a socket address; all 0 if it is neither IPv4 nor IPv6.
  static InternetAddress of(const sockaddr& address);
  static InternetAddress loopback();

  bool known() const { return *this != InternetAddress{}; }
  bool is_ipv4() const;
  bool is_loopback() const;
  /// Whether the address is in IPv6's fe80::/10, whose addresses mean nothing without an interface.
  bool is_link_local() const;
  std::string text() const;
  bool operator==(const InternetAddress&) const = default;
};

/// The addresses of this host's interfaces, except loopback and link-local ones; IPv4 first.
std::vector<InternetAddress> own_addresses();

/// The addresses that a host name or a number stands for, each once. Stores the reason if there are
/// none.
std::vector<InternetAddress> addresses_of(const std::string& host, std::string& why_none);

/// Opens a non-blocking socket that listens at an address of this host, or at all of its IPv4 and
/// IPv6 addresses. With port 0, the system chooses the port. If the address and port are not
/// available, returns a closed socket and leaves the reason in errno.
Socket listen_on(std::uint16_t port, const InternetAddress& address = {});
std::uint16_t port_of(const Socket& listener);

/// Starts a non-blocking TCP connection with TCP_NODELAY. Returns a closed socket, with the reason
/// in errno, if the address cannot be reached or no socket can be created.
Socket call(const InternetAddress& address, std::uint16_t port);
/// The errno of a connection attempt whose socket has become writable; 0 if it has connected.
int call_error(const Socket& socket);

/// Accepts the next connection and sets the same socket options as `call`. Returns a closed socket
/// if no connection is waiting, or if no socket can be created (`lacks_sockets`).
Socket accept_call(const Socket& listener);
/// Whether this errno says that the process or the system can open no more sockets.
bool lacks_sockets(int error);

/// The addresses at the two ends of a connection; all 0 if it has ended.
InternetAddress local_address(const Socket& socket);
InternetAddress remote_address(const Socket& socket);

}  // namespace heliograph
