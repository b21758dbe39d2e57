#include "comm/rendezvous/handshake.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

namespace heliograph {
namespace {

/// The side is part of the text, so that nobody can send a proof back to where it came from.
struct ProvenText {
  Handshake::Side side;
  Handshake handshake;
};
static_assert(std::has_unique_object_representations_v<ProvenText>);

}  // namespace

ProofBytes Handshake::proof_of(Side side, const RunKey& key) const {
  const ProvenText text{side, *this};
  return key.prove(std::as_bytes(std::span(&text, 1)));
}

bool Handshake::proves(std::span<const std::byte> proof, Side side, const RunKey& key) const {
  const ProvenText text{side, *this};
  return key.accepts(proof, std::as_bytes(std::span(&text, 1)));
}

std::span<const std::byte> payload_of(const std::string& text) {
  return std::as_bytes(std::span(text)).first(std::min(text.size(), kMostTextBytes));
}

bool Connection::send(HandshakeHeader header, std::span<const std::byte> payload) {
  header.bytes = static_cast<std::uint32_t>(payload.size());
  const auto header_bytes = std::as_bytes(std::span(&header, 1));
  unsent_.insert(unsent_.end(), header_bytes.begin(), header_bytes.end());
  unsent_.insert(unsent_.end(), payload.begin(), payload.end());
  return flush();
}

bool Connection::flush() {
  std::size_t sent = 0;
  bool broken = false;
  while (sent < unsent_.size() && !broken) {
    const ssize_t count = ::send(socket_.get(), unsent_.data() + sent, unsent_.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    broken = count <= 0;
    if (!broken) sent += static_cast<std::size_t>(count);
  }
  if (broken) sent = unsent_.size();  // Nothing more can be sent.
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent));
  return !broken;
}

bool Connection::receive(std::size_t most_bytes) {
  while (!ended_) {
    const bool in_payload = received_ >= sizeof(HandshakeHeader);
    std::byte* const part = in_payload ? payload_.data() : reinterpret_cast<std::byte*>(&header_);
    const std::size_t bytes = in_payload ? payload_.size() : sizeof(HandshakeHeader);
    const std::size_t done = received_ - (in_payload ? sizeof(HandshakeHeader) : 0);
    if (in_payload && done == bytes) {
      received_ = 0;
      return true;
    }
    const ssize_t count = recv(socket_.get(), part + done, bytes - done, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) {
      ended_ = true;
      return false;
    }
    received_ += static_cast<std::size_t>(count);
    if (received_ == sizeof(HandshakeHeader)) {
      const bool ours = header_.magic == HandshakeHeader::kMagic;
      payload_.resize(ours && header_.bytes <= most_bytes ? header_.bytes : 0);
      ended_ = ours && header_.bytes > most_bytes;
    }
  }
  return false;
}

std::string Connection::text() const {
  std::string text(reinterpret_cast<const char*>(payload_.data()), payload_.size());
  // The sender may be a stranger, and the text may be printed on a terminal.
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text;
}

bool Connection::copy_payload(ProofBytes& bytes) const {
  if (payload_.size() != bytes.size()) return false;
  std::copy(payload_.begin(), payload_.end(), bytes.begin());
  return true;
}

pollfd Connection::entry() const {
  const int events = POLLIN | (unsent_.empty() ? 0 : POLLOUT);
  return {socket_.get(), static_cast<short>(events), 0};
}

}  // namespace heliograph
