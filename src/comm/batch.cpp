#include "comm/batch.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace heliograph {
namespace {

template <class Message>
void check(const Communicator& comm, std::span<const Message> messages, const char* what) {
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
      throw Error(ErrorCode::usage, describe_rank(comm.rank(), comm.progress()) + ": " + what +
                                        " of " + std::to_string(message.bytes) + " bytes: peer " +
                                        std::to_string(message.peer) + wrong);
    }
  }
}

}  // namespace

void check_batch(const Communicator& comm, std::span<const SendMessage> sends,
                 std::span<const RecvMessage> receives) {
  check(comm, sends, "send");
  check(comm, receives, "receive");
}

int count_messages(std::span<const SendMessage> sends, std::span<const RecvMessage> receives) {
  const auto holds_bytes = [](const auto& message) { return message.bytes > 0; };
  return static_cast<int>(std::count_if(sends.begin(), sends.end(), holds_bytes) +
                          std::count_if(receives.begin(), receives.end(), holds_bytes));
}

std::string describe_end(const MessageEnd& end) {
  const std::string peer = "rank " + std::to_string(end.peer);
  const std::string channel = "on the " + std::string(channel_name(end.channel)) + " channel";
  return end.sending ? peer + " to receive " + channel : "bytes from " + peer + " " + channel;
}

std::string describe_seconds(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

std::string describe_stall(double seconds, const MessageEnd& end) {
  return "waited " + describe_seconds(seconds) + " without progress for " + describe_end(end);
}

std::string describe_mismatch(int from, int to, Channel channel, std::size_t sent,
                              std::size_t expected) {
  return "rank " + std::to_string(from) + " sends " + std::to_string(sent) + " bytes on the " +
         std::string(channel_name(channel)) + " channel, rank " + std::to_string(to) + " expects " +
         std::to_string(expected);
}

void refuse_ticket(const Communicator& comm, Ticket ticket) {
  throw Error(ErrorCode::usage, describe_rank(comm.rank(), comm.progress()) + ": ticket " +
                                    std::to_string(ticket.id) + " was never given");
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
