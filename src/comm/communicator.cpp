#include "comm/communicator.hpp"

namespace heliograph {

std::string_view channel_name(Channel channel) noexcept {
  switch (channel) {
    case Channel::halo:
      return "halo";
    case Channel::weights:
      return "weights";
    case Channel::evaluation:
      return "evaluation";
  }
  return "unknown";
}

std::string describe_rank(int rank, Progress progress) {
  std::string text = "rank " + std::to_string(rank);
  if (progress.epoch >= 0) text += ", epoch " + std::to_string(progress.epoch);
  if (progress.layer >= 0) text += ", layer " + std::to_string(progress.layer);
  return text;
}

}  // namespace heliograph
