#include "comm/watch/rank_watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include "comm/clock.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// The longest time between two signs of life that a rank sends, in seconds. If an eighth of the
/// shortest silence limit is less, that is used instead.
constexpr double kLongestBeat = 0.25;
/// How long an exception may pass before the others are told what it has caused, in seconds. Less
/// than the time after which a process that has failed is ended by force.
constexpr double kUnwindSeconds = 0.2;

std::string rounded(double seconds) {
  const auto tenths = static_cast<long>(std::lround(seconds * 10));
  return fmt::format("{}.{} s", tenths / 10, tenths % 10);
}

std::chrono::duration<double> span_of(double seconds) {
  return std::chrono::duration<double>(std::min(seconds, kLongestSleep));
}

void check_limit(double seconds, RunPhase phase) {
  if (seconds > 0 && std::isfinite(seconds)) return;
  throw_error(ErrorCode::usage,
              "the longest silence while {} is {:f} s; it must be a finite number above 0",
              phase_name(phase), seconds);
}

/// Where a rank was when it last said so, which may be a quarter of a second before its loss.
std::string last_heard(Progress progress) {
  if (progress.epoch < 0) return {};
  const std::string layer = progress.layer < 0 ? "" : fmt::format(", layer {}", progress.layer);
  return fmt::format(", last heard of in epoch {}{}", progress.epoch, layer);
}

}  // namespace

double SilenceLimits::of(RunPhase phase) const {
  if (phase == RunPhase::loading) return loading;
  return phase == RunPhase::saving ? saving : training;
}

RankWatch::RankWatch(int rank, int ranks, const SilenceLimits& limits)
    : rank_(rank), limits_(limits), peers_(static_cast<std::size_t>(ranks)) {
  for (const RunPhase phase : {RunPhase::loading, RunPhase::training, RunPhase::saving}) {
    check_limit(limits.of(phase), phase);
  }
  const double least = std::min({limits.loading, limits.training, limits.saving});
  beat_seconds_ = std::min(kLongestBeat, least / 8);
}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void RankWatch::start(std::vector<Socket> sockets, std::span<const Introduction> all) {
  const double now = monotonic_seconds();
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].socket = std::move(sockets[r]);
    peers_[r].host = all[r].host_name();
    if (static_cast<int>(r) != rank_ && all[r].shares_host(all[static_cast<std::size_t>(rank_)])) {
      ++ranks_on_host_;
    }
    peers_[r].heard_at = now;
  }
  if (peers_.size() == 1) return;
  alarm_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!alarm_.open()) refuse_connections("open an event");
  try {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "rank watch");
      watch();
    });
  } catch (const std::system_error& error) {
    throw_error(ErrorCode::resource, "the rank watch cannot start its thread: {}", error.what());
  }
}

void RankWatch::wake() noexcept {
  const std::uint64_t one = 1;
  if (alarm_.open()) {
    [[maybe_unused]] const ssize_t written = ::write(alarm_.get(), &one, sizeof(one));
  }
}

void RankWatch::set_phase(RunPhase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  tell(own_frame(WatchFrame::Kind::alive));
}

void RankWatch::observe(const Communicator* comm, Tickets* tickets) {
  const std::lock_guard lock(mutex_);
  observed_ = comm;
  tickets_ = tickets;
}

WatchFrame RankWatch::own_frame(WatchFrame::Kind kind) const {
  WatchFrame frame;
  frame.kind = kind;
  frame.phase = phase_;
  frame.rank = rank_;
  if (observed_ != nullptr) frame.progress = observed_->progress();
  return frame;
}

/// Sends a frame to every rank that still listens. If it does not fit into the socket it is
/// dropped: the connection is then as good as lost, and the other rank will notice the silence.
void RankWatch::tell(const WatchFrame& frame) noexcept {
  try {
    const std::vector<std::byte> bytes = encode_frame(frame);
    for (const Peer& peer : peers_) {
      if (!peer.socket.open()) continue;
      [[maybe_unused]] const ssize_t sent =
          send(peer.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  } catch (...) {
    // There is no memory for a frame; the others will notice the end of this process.
  }
}

void RankWatch::watch() {
  std::vector<pollfd> entries;
  std::vector<int> ranks;
  entries.reserve(peers_.size() + 1);
  ranks.reserve(peers_.size());
  double last_turn = monotonic_seconds();
  double next_beat = last_turn;
  while (true) {
    entries.clear();
    ranks.clear();
    double due = next_beat;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      if (untold_) due = std::min(due, untold_->since + kUnwindSeconds);
      entries.push_back({alarm_.get(), POLLIN, 0});
      for (std::size_t r = 0; r < peers_.size(); ++r) {
        if (!peers_[r].socket.open()) continue;
        entries.push_back({peers_[r].socket.get(), POLLIN, 0});
        ranks.push_back(static_cast<int>(r));
      }
    }
    const double left = std::max(0.0, due - monotonic_seconds());
    poll(entries.data(), entries.size(), static_cast<int>(std::ceil(left * 1e3)));

    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = ::read(alarm_.get(), &ignored, sizeof(ignored));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      Peer& peer = peers_[static_cast<std::size_t>(ranks[i])];
      if (entries[i + 1].revents != 0 && peer.socket.open()) read(ranks[i], peer);
    }
    const double now = monotonic_seconds();
    // If this thread slept (a stopped process, a stalled machine), it could not hear the others.
    if (now - last_turn > 4 * beat_seconds_) {
      for (Peer& peer : peers_) peer.heard_at = std::max(peer.heard_at, now - beat_seconds_);
    }
    last_turn = now;
    look_for_silence(now);
    if (untold_ && now >= untold_->since + kUnwindSeconds) tell_untold();
    if (now >= next_beat) {
      tell(own_frame(WatchFrame::Kind::alive));
      next_beat = now + beat_seconds_;
    }
  }
}

void RankWatch::read(int rank, Peer& peer) {
  std::array<std::byte, 4096> buffer;
  while (true) {
    const ssize_t count = recv(peer.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      peer.socket.close();
      // A rank leaves when all have said goodbye, this one too.
      const bool left = peer.said_bye && said_bye_;
      if (!left && !peer.has_ended) lose(rank, peer, "its process has ended without a word");
      peer.has_ended = true;
      changed_.notify_all();
      return;
    }
    peer.heard_at = monotonic_seconds();
    try {
      peer.reader.append(buffer.data(), static_cast<std::size_t>(count));
      while (const auto frame = peer.reader.next()) handle(rank, peer, *frame);
    } catch (const std::exception& error) {
      lose(rank, peer, error.what());
      peer.socket.close();
      return;
    }
  }
}

void RankWatch::handle(int rank, Peer& peer, const WatchFrame& frame) {
  switch (frame.kind) {
    case WatchFrame::Kind::alive:
      peer.phase = frame.phase;
      peer.progress = frame.progress;
      return;
    case WatchFrame::Kind::failed:
      peer.said = frame.text;
      peer.has_ended = true;
      // A rank may tell its error twice, the second time with a code that is more precise.
      if (failure_ && failure_->rank == rank && !failure_->lost) failure_->code = frame.code;
      record({rank, frame.code, describe_rank(rank, frame.progress) + ": " + frame.text, false},
             false);
      return;
    case WatchFrame::Kind::lost: {
      peer.has_ended = true;
      std::string text = frame.text;
      if (frame.rank == rank_) {
        text = fmt::format("taken for lost by rank {}, which says: {}", rank, frame.text);
      }
      // Passed on, so that nobody takes the end of this rank for the loss.
      if (!failed_ && frame.rank != rank_) tell(frame);
      record_loss(frame.rank, text);
      return;
    }
    case WatchFrame::Kind::ready:
    case WatchFrame::Kind::leaving:
      peer.leaves = frame.kind;
      [[fallthrough]];
    case WatchFrame::Kind::heard:
      peer.has_ended = true;
      changed_.notify_all();
      return;
    case WatchFrame::Kind::bye:
      peer.said_bye = true;
      changed_.notify_all();
      return;
  }
}

void RankWatch::lose(int rank, Peer& peer, const std::string& how) noexcept {
  if (failed_) return;
  try {
    describe_loss(rank, peer, how);
  } catch (...) {
    spread_failure();  // There is no memory for the text.
  }
}

void RankWatch::describe_loss(int rank, const Peer& peer, const std::string& how) {
  const WatchFrame own = own_frame(WatchFrame::Kind::lost);
  WatchFrame frame = own;
  frame.rank = rank;
  frame.phase = peer.phase;
  frame.progress = peer.progress;
  frame.text = fmt::format("lost on host {} while {}{}: {} (noticed by {})", peer.host,
                           phase_name(peer.phase), last_heard(peer.progress), how,
                           describe_rank(rank_, own.progress));
  record_loss(rank, frame.text);
  tell(frame);
}

void RankWatch::record_loss(int rank, const std::string& text) {
  record({rank, ErrorCode::peer_lost, fmt::format("rank {} was {}", rank, text), true}, false);
}

void RankWatch::look_for_silence(double now) {
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    const double silence = now - peer.heard_at;
    if (!peer.socket.open() || silence <= limits_.of(peer.phase)) continue;
    lose(static_cast<int>(r), peer, "no sign of life for " + rounded(silence));
  }
}

void RankWatch::record(Failure failure, bool replace) noexcept {
  if (failure_ && !replace) return;
  failure_ = std::move(failure);
  spread_failure();
}

/// Ends all waits of this process.
void RankWatch::spread_failure() noexcept {
  failed_ = true;
  if (tickets_ != nullptr) tickets_->interrupt();
  changed_.notify_all();
}

/// Records this rank's own failure in place of what was known.
void RankWatch::record_own(Progress progress, ErrorCode code, const std::string& what) {
  record({rank_, code, describe_rank(rank_, progress) + ": " + what, false}, true);
}

/// Records this rank's own failure in place of what was known, and tells the others.
void RankWatch::announce(Progress progress, ErrorCode code, const std::string& what) noexcept {
  try {
    record_own(progress, code, what);
    WatchFrame frame = own_frame(WatchFrame::Kind::failed);
    frame.progress = progress;
    frame.code = code;
    frame.text = what;
    tell(frame);
    untold_.reset();
  } catch (...) {
    spread_failure();  // There is no memory for the text; message_locked() has another.
  }
}

void RankWatch::fail(Progress progress, ErrorCode code, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_ || untold_) announce(progress, code, reason);
}

void RankWatch::fail_while_unwinding(Progress progress, ErrorCode code,
                                     const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  try {
    record_own(progress, code, reason);
    untold_ = {progress, code, reason, monotonic_seconds()};
    wake();
  } catch (...) {
    spread_failure();
  }
}

void RankWatch::tell_untold() noexcept {
  const auto untold = std::exchange(untold_, std::nullopt);
  if (untold) announce(untold->progress, untold->code, untold->reason);
}

void RankWatch::fail_by_exception(Progress progress, ErrorCode code,
                                  const std::string& what) noexcept {
  const std::lock_guard lock(mutex_);
  // An exception that carries the recorded message is its echo, not its cause.
  if (failure_ && what.find(failure_->message) != std::string::npos) return tell_untold();
  announce(progress, code, what);
}

std::string RankWatch::message_locked() const {
  if (failure_) return failure_->message;
  return fmt::format("rank {} failed and had no memory left to say why", rank_);
}

void RankWatch::throw_if_failed() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  throw Error(ErrorCode::peer_lost, message_locked());
}

ErrorCode RankWatch::failure_code() const {
  const std::lock_guard lock(mutex_);
  return failure_ ? failure_->code : ErrorCode::peer_lost;
}

std::string RankWatch::failure_text() const {
  const std::lock_guard lock(mutex_);
  return message_locked();
}

void RankWatch::rethrow() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  const bool own = failure_ && failure_->rank == rank_;
  throw Error(own ? failure_->code : ErrorCode::peer_lost, message_locked());
}

bool RankWatch::wait_for_failure(double seconds) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span_of(seconds), [this] { return failed_.load(); });
}

}  // namespace heliograph
