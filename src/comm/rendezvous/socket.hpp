#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

struct sockaddr;

namespace heliograph {

/// Throws Error(resource): "the connections between ranks: cannot WHAT" and why, as errno says.
[[noreturn]] void refuse_connections(const char* what);

using Socket = Descriptor;

/// An IPv6 address, or an IPv4 one mapped into those, as plain bytes; all 0: none.
struct InternetAddress {
  std::array<std::uint8_t, 16> bytes{};

  /// Of an IPv4 address in network order.
  static InternetAddress of_ipv4(std::uint32_t address);
  /// None where it is of another family.
  static InternetAddress of(const sockaddr& address);
  static InternetAddress loopback();

  bool known() const { return *this != InternetAddress{}; }
  bool is_ipv4() const;
  bool is_loopback() const;
  /// IPv6's fe80::/10, which mean nothing without an interface.
  bool is_link_local() const;
  std::string text() const;
  bool operator==(const InternetAddress&) const = default;
};

/// The addresses of this host's interfaces, IPv4 first, without loopback and link-local ones.
std::vector<InternetAddress> own_addresses();

/// A non-blocking socket that listens at every address of this host, IPv6 and IPv4; port 0: one
/// that the system chooses. Closed where the port cannot be had: errno says why.
Socket listen_on(std::uint16_t port);
std::uint16_t port_of(const Socket& listener);

/// A non-blocking connection under way, without delays for small messages. Closed where there is
/// no way to the address. Throws Error(resource) where no socket can be had.
Socket call(const InternetAddress& address, std::uint16_t port);
/// errno of a call that has become writable; 0: it has connected.
int call_error(const Socket& socket);

/// The socket of the next caller, with the same settings as that of `call`; closed if nobody calls.
/// Throws Error(resource) where no socket can be had.
Socket accept_call(const Socket& listener);

/// The addresses of a connection's two ends; unknown if it has ended.
InternetAddress local_address(const Socket& socket);
InternetAddress remote_address(const Socket& socket);

}  // namespace heliograph
