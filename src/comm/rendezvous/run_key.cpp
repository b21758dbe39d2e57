#include "comm/rendezvous/run_key.hpp"

#include <sodium.h>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

static_assert(sizeof(ProofBytes) == crypto_auth_hmacsha256_BYTES);

void start_sodium() {
  if (sodium_init() < 0) throw_error(ErrorCode::resource, "libsodium cannot start");
}

const unsigned char* plain(const void* data) { return static_cast<const unsigned char*>(data); }

}  // namespace

ProofBytes random_bytes() {
  start_sodium();
  ProofBytes bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::uint32_t random_below(std::uint32_t end) {
  start_sodium();
  return randombytes_uniform(end);
}

RunKey RunKey::with(const ProofBytes& token) const {
  // The token has a fixed size and comes first, so different pairs make different keys.
  std::string both(reinterpret_cast<const char*>(token.data()), token.size());
  return RunKey(both + secret_);
}

ProofBytes RunKey::prove(std::span<const std::byte> text) const {
  start_sodium();
  crypto_auth_hmacsha256_state state;
  ProofBytes proof;
  crypto_auth_hmacsha256_init(&state, plain(secret_.data()), secret_.size());
  crypto_auth_hmacsha256_update(&state, plain(text.data()), text.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

bool RunKey::accepts(std::span<const std::byte> proof, std::span<const std::byte> text) const {
  const ProofBytes right = prove(text);
  return proof.size() == right.size() &&
         sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace heliograph
