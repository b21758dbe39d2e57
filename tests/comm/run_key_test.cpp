#include "comm/rendezvous/run_key.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/rendezvous/handshake.hpp"

namespace heliograph {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string hex_of(const ProofBytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

TEST(RunKey, ProvesByHmacSha256WithKeysOfAnyLength) {
  // Test cases 2 and 6 of RFC 4231; the second key is longer than a block.
  EXPECT_EQ(hex_of(RunKey("Jefe").prove(bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(RunKey(std::string(131, '\xaa'))
                       .prove(bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(RunKey, AcceptsOnlyTheProofOfTheSameKeyAndText) {
  const RunKey key("a secret");
  const ProofBytes proof = key.prove(bytes_of("text"));
  EXPECT_TRUE(key.accepts(proof, bytes_of("text")));
  EXPECT_FALSE(key.accepts(proof, bytes_of("Text")));
  EXPECT_FALSE(RunKey("another").accepts(proof, bytes_of("text")));
  EXPECT_FALSE(key.accepts(std::span(proof).first(31), bytes_of("text")));
  EXPECT_FALSE(key.accepts({}, bytes_of("text")));
  const ProofBytes token = random_bytes();
  EXPECT_FALSE(key.with(token).accepts(proof, bytes_of("text")));
  EXPECT_FALSE(
      key.with(token).accepts(key.with(random_bytes()).prove(bytes_of("text")), bytes_of("text")));
}

TEST(RunKey, EachPartOfAHandshakeIsProven) {
  using enum Handshake::Side;
  const RunKey key("a secret");
  Handshake handshake;
  handshake.caller = random_bytes();
  handshake.listener = random_bytes();
  const ProofBytes proof = handshake.proof_of(caller, key);
  EXPECT_TRUE(handshake.proves(proof, caller, key));
  EXPECT_FALSE(handshake.proves(proof, listener, key)) << "a proof can be sent back";
  std::vector<Handshake> others(5, handshake);
  others[0].caller = random_bytes();
  others[1].listener = random_bytes();
  others[2].call.from = 1;
  others[3].call.run = 1;
  others[4].call.link = 1;
  for (const Handshake& other : others) EXPECT_FALSE(other.proves(proof, caller, key));
}

}  // namespace
}  // namespace heliograph
