#include "comm/rendezvous/mesh.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

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

}  // namespace

std::string ProcessAddress::host_name() const {
  return {host.data(), strnlen(host.data(), host.size())};
}

ProcessMesh::ProcessMesh() : listener_(listen_on(0)) {
  if (!listener_.open()) refuse_connections("listen");
  address_.port = port_of(listener_);
  gethostname(address_.host.data(), address_.host.size() - 1);
  address_.machine = machine_id();
  address_.network = network_id();
  address_.token = random_token();
  const std::vector<InternetAddress> own = own_addresses();
  std::copy_n(own.begin(), std::min(own.size(), address_.addresses.size()),
              address_.addresses.begin());
}

}  // namespace heliograph
