#include "comm/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

template <class Message>
void check_messages(const Communicator& comm, std::span<const Message> messages, const char* what) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const char* wrong = nullptr;
    if (message.peer < 0 || message.peer >= comm.size()) wrong = " is no rank";
    if (message.peer == comm.rank()) wrong = " is the rank itself";
    if (message.bytes > 0 && message.data == nullptr) wrong = " has no buffer";
    for (std::size_t j = 0; j < i; ++j) {
      if (messages[j].peer == message.peer) wrong = " is there twice in one batch";
    }
    if (wrong != nullptr) {
      throw_error(ErrorCode::usage, "{}: {} of {} bytes: peer {}{}",
                  describe_rank(comm.rank(), comm.progress()), what, message.bytes, message.peer,
                  wrong);
    }
  }
}

}  // namespace

void check_batch(const Communicator& comm, std::span<const SendMessage> sends,
                 std::span<const RecvMessage> receives) {
  check_messages(comm, sends, "send");
  check_messages(comm, receives, "receive");
}

int count_messages(std::span<const SendMessage> sends, std::span<const RecvMessage> receives) {
  const auto holds_bytes = [](const auto& message) { return message.bytes > 0; };
  return static_cast<int>(std::count_if(sends.begin(), sends.end(), holds_bytes) +
                          std::count_if(receives.begin(), receives.end(), holds_bytes));
}

std::string describe_end(const MessageEnd& end) {
  const std::string_view channel = channel_name(end.channel);
  return end.sending ? fmt::format("rank {} to receive on the {} channel", end.peer, channel)
                     : fmt::format("bytes from rank {} on the {} channel", end.peer, channel);
}

std::string describe_seconds(double seconds) {
  std::string text = fmt::format("{:f}", seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

std::string describe_stall(double seconds, const MessageEnd& end) {
  return fmt::format("waited {} without progress for {}", describe_seconds(seconds),
                     describe_end(end));
}

std::string describe_mismatch(int from, int to, Channel channel, std::size_t sent,
                              std::size_t expected) {
  return fmt::format("rank {} sends {} bytes on the {} channel, rank {} expects {}", from, sent,
                     channel_name(channel), to, expected);
}

void refuse_ticket(const Communicator& comm, Ticket ticket) {
  throw_error(ErrorCode::usage, "{}: ticket {} was never given",
              describe_rank(comm.rank(), comm.progress()), ticket.id);
}

RankFailure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::resource, "out of memory"};
  } catch (const std::length_error& error) {
    return {ErrorCode::resource, error.what()};
  } catch (const std::exception& error) {
    return {ErrorCode::peer_lost, error.what()};
  } catch (...) {
    return {ErrorCode::peer_lost, "an exception of unknown type"};
  }
}

}  // namespace heliograph
