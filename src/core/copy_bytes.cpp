#include "core/copy_bytes.hpp"

#include <cstring>

namespace heliograph {

void copy_on_host(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace heliograph
