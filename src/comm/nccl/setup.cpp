#include "comm/nccl/setup.hpp"

#include <array>
#include <cstring>
#include <fstream>
#include <span>
#include <string>

#include "comm/collectives.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// Where a rank computes: equal for ranks that share a device.
struct Place {
  std::array<char, 40> machine{};  ///< Of its running kernel: containers do not differ.
  std::array<char, 40> device{};
  bool operator==(const Place&) const = default;
};

Place place_of(int device) {
  Place place;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  boot.read(place.machine.data(), place.machine.size() - 1);
  const std::string address = NcclLink::address(device);
  address.copy(place.device.data(), place.device.size() - 1);
  return place;
}

}  // namespace

void refuse_shared_devices(Communicator& host, int device) {
  const Place mine = place_of(device);
  const std::vector<std::byte> bytes =
      gather_to_root(host, Channel::evaluation, std::as_bytes(std::span(&mine, 1)));
  std::vector<Place> places(bytes.size() / sizeof(Place));
  for (std::size_t b = 0; b < places.size(); ++b) {
    std::memcpy(&places[b], bytes.data() + b * sizeof(Place), sizeof(Place));
    for (std::size_t a = 0; a < b; ++a) {
      if (places[a] != places[b]) continue;
      throw_error(ErrorCode::usage,
                  "--transport nccl: ranks {} and {} are on one device, {}, and NCCL takes one "
                  "rank a device; use --transport threads or mpi",
                  a, b, places[a].device.data());
    }
  }
}

std::vector<NcclLink::Id> share_ids(Communicator& host, std::size_t count) {
  std::vector<NcclLink::Id> ids(count);
  auto* const bytes = reinterpret_cast<std::byte*>(ids.data());
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  if (host.rank() == 0) {
    for (NcclLink::Id& id : ids) id = NcclLink::make_id();
    for (int peer = 1; peer < host.size(); ++peer) {
      sends.push_back({peer, bytes, count * NcclLink::kIdBytes});
    }
  } else {
    receives.push_back({0, bytes, count * NcclLink::kIdBytes});
  }
  host.wait(host.post(Channel::evaluation, sends, receives));
  return ids;
}

}  // namespace heliograph
