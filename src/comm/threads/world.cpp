#include "comm/threads/world.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <system_error>

#include "comm/batch.hpp"
#include "core/thread.hpp"
#include "core/throw_error.hpp"

namespace heliograph {

ThreadWorld::ThreadWorld(int ranks, const ThreadTransportOptions& options)
    : ranks_(ranks),
      timeout_seconds_(options.timeout_seconds),
      moves_device_memory_(options.copy != copy_on_host),
      on_thread_(options.on_thread),
      tickets_(static_cast<std::size_t>(ranks)),
      ended_(static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank) {
    outboxes_.emplace_back(rank, ranks, options.link, options.copy, tickets_, failed_);
  }
}

ThreadWorld::~ThreadWorld() {
  for (Outbox& outbox : outboxes_) outbox.stop();
  for (std::thread& thread : communication_threads_) thread.join();
}

void ThreadWorld::start() {
  if (ranks_ == 1) return;
  try {
    communication_threads_.reserve(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      communication_threads_.emplace_back([this, rank] {
        pthread_setname_np(pthread_self(), fmt::format("comm {}", rank).c_str());
        const FineTimer timer;
        try {
          if (on_thread_ != nullptr) on_thread_(rank);
          outbox(rank).serve();
        } catch (...) {
          const RankFailure failure = current_failure();
          fail(rank, {}, failure.code, failure.text);
        }
      });
    }
  } catch (const std::system_error& error) {
    throw_error(ErrorCode::resource, "cannot start the communication threads of {} ranks: {}",
                ranks_, error.what());
  }
}

void ThreadWorld::quiesce() {
  for (Outbox& outbox : outboxes_) outbox.quiesce();
}

void ThreadWorld::record(int rank, Progress progress, ErrorCode code,
                         const std::string& reason) noexcept {
  code_ = code;
  failed_rank_ = rank;
  try {
    message_ = describe_rank(rank, progress) + ": " + reason;
  } catch (...) {
    message_.clear();  // message() has a sentence for it.
  }
  failed_ = true;
}

void ThreadWorld::end_all_waits() noexcept {
  for (Tickets& tickets : tickets_) tickets.interrupt();
  quiesce();
}

void ThreadWorld::fail(int rank, Progress progress, ErrorCode code,
                       const std::string& reason) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failed_) record(rank, progress, code, reason);
  }
  end_all_waits();
}

void ThreadWorld::fail_by_exception(int rank, Progress progress, ErrorCode code,
                                    const std::string& what) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    // An exception that carries the recorded message is its echo, not its cause.
    const bool is_echo = failed_ && what.find(message_) != std::string::npos;
    if (!failed_ || (rank == failed_rank_ && !is_echo)) record(rank, progress, code, what);
  }
  end_all_waits();
}

std::string ThreadWorld::message() const {
  const std::lock_guard lock(failure_mutex_);
  if (!message_.empty()) return message_;
  return fmt::format("rank {} failed and had no memory left to say why", failed_rank_);
}

void ThreadWorld::throw_if_failed() {
  if (!failed_) return;
  quiesce();
  throw Error(ErrorCode::peer_lost, message());
}

void ThreadWorld::rethrow_cause() const {
  if (failed_) throw Error(code_, message());
}

void ThreadWorld::set_ended(int rank) {
  ended_[static_cast<std::size_t>(rank)] = true;
  any_ended_ = true;
  for (Tickets& tickets : tickets_) tickets.interrupt();
}

}  // namespace heliograph
