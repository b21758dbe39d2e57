#include "comm/process_mesh.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <utility>

#include "comm/process_meeting.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace {

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

void list_interfaces(ProcessAddress& address) {
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

}  // namespace

void refuse_connections(const char* what) {
  throw Error(ErrorCode::resource, std::string("the connections between ranks: cannot ") + what +
                                       ": " + std::strerror(errno));
}

std::string ProcessAddress::host_name() const {
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

ProcessMesh::ProcessMesh() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (!listener_.open()) refuse_connections("open a socket");
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(any);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
    refuse_connections("listen");
  }
  fcntl(listener_.get(), F_SETFL, fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  address_.port = ntohs(any.sin_port);
  gethostname(address_.host.data(), address_.host.size() - 1);
  address_.machine = machine_id();
  address_.network = network_id();
  address_.token = random_token();
  list_interfaces(address_);
}

std::vector<Socket> ProcessMesh::connect(int rank, std::span<const ProcessAddress> all,
                                         double seconds) {
  std::vector<Socket> sockets = ProcessMeeting(rank, all, listener_).meet(seconds);
  listener_.close();
  return sockets;
}

}  // namespace heliograph
