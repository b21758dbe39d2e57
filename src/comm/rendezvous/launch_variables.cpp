#include "comm/rendezvous/launch_variables.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <string_view>

#include "core/parse_number.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

constexpr int kPorts = 65536;

std::optional<std::string> text_of(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

/// The number in a variable, from `least` up to below `end`; nothing where the variable is not set.
std::optional<int> number_of(const char* name, int least, int end) {
  const std::optional<std::string> text = text_of(name);
  if (!text) return std::nullopt;
  const std::optional<int> value = parse_plain_number<int>(*text);
  if (value && *value >= least && *value < end) return value;
  const bool open = end == std::numeric_limits<int>::max();
  throw_error(ErrorCode::usage, "the environment says {}={}; it must be a number from {} {}", name,
              *text, least, open ? "on" : fmt::format("to {}", end - 1));
}

/// Throws unless all variables are set that ranks need to find each other.
void require_all() {
  std::string set, missing;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    std::string& list = text_of(name) ? set : missing;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  }
  if (missing.empty()) return;
  throw_error(ErrorCode::usage,
              "the environment has {} but not {}: set all of them to start ranks as processes, or "
              "unset them to train in one process",
              set, missing);
}

std::uint64_t hash(std::uint64_t seed, std::string_view text) {
  for (const char c : text) {  // FNV-1a: the same on all hosts.
    seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return seed;
}

}  // namespace

std::vector<std::uint16_t> LaunchVariables::ports() const {
  if (!port_is_taken) return {port};
  const int step = port + kPortsAfter < kPorts ? 1 : -1;
  std::vector<std::uint16_t> found;
  for (int i = 1; i <= kPortsAfter; ++i) {
    found.push_back(static_cast<std::uint16_t>(port + i * step));
  }
  return found;
}

std::uint64_t LaunchVariables::run_id() const {
  return hash(0xcbf29ce484222325, fmt::format("{}/{}", port, run));
}

std::optional<LaunchVariables> launch_variables() {
  if (!text_of("RANK") && !text_of("WORLD_SIZE")) return std::nullopt;
  constexpr int kMost = std::numeric_limits<int>::max();
  LaunchVariables found;
  found.ranks = number_of("WORLD_SIZE", 1, kMost).value_or(0);
  if (found.ranks != 1) require_all();
  found.rank = number_of("RANK", 0, found.ranks).value_or(0);
  const int on_host = number_of("LOCAL_WORLD_SIZE", 1, kMost).value_or(kMost);
  found.local_rank = number_of("LOCAL_RANK", 0, on_host);
  if (found.ranks == 1) return found;
  found.address = on_host == found.ranks ? "localhost" : *text_of("MASTER_ADDR");
  found.port = static_cast<std::uint16_t>(*number_of("MASTER_PORT", 1, kPorts));
  found.port_is_taken = text_of("TORCHELASTIC_USE_AGENT_STORE") == "True";
  found.run = fmt::format("{}/{}", text_of("TORCHELASTIC_RUN_ID").value_or(""),
                          text_of("TORCHELASTIC_RESTART_COUNT").value_or(""));
  found.key = RunKey(text_of("HELIOGRAPH_RUN_KEY").value_or(""));
  return found;
}

}  // namespace heliograph
