#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace heliograph {

/// 32 bytes: a random number that is used once, or the proof that somebody knows a key.
using ProofBytes = std::array<std::byte, 32>;

/// Returns bytes that nobody can guess. Throws Error(resource) if the system has none.
ProofBytes random_bytes();
/// A random number below `end`, which is above 0.
std::uint32_t random_below(std::uint32_t end);

/// The secret that all ranks of a run share. A rank proves that it knows the key without sending
/// it. The key of an empty text is known to everybody.
class RunKey {
 public:
  RunKey() = default;
  explicit RunKey(std::string secret) : secret_(std::move(secret)) {}

  bool empty() const { return secret_.empty(); }
  /// The key of the same ranks once they also share `token`.
  RunKey with(const ProofBytes& token) const;

  /// Returns HMAC-SHA-256 of `text`. Throws Error(resource).
  ProofBytes prove(std::span<const std::byte> text) const;
  /// Whether `proof` is that of `text`. Takes as long for a wrong proof as for the right one.
  bool accepts(std::span<const std::byte> proof, std::span<const std::byte> text) const;

 private:
  std::string secret_;
};

}  // namespace heliograph
