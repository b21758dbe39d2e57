// How a rank leaves its run: together with all others, or after a failure that one of them reports.
#include <sys/inotify.h>

#include <algorithm>
#include <chrono>

#include "comm/clock.hpp"
#include "comm/watch/rank_watch.hpp"

namespace heliograph {
namespace {

/// How long must_report() waits for other ranks' reports, and for the rank that caused the failure
/// to end.
constexpr std::chrono::duration<double> kLossReportTime{0.15};
constexpr std::chrono::duration<double> kCauseTime{0.8};
/// The most inotify descriptors that delay_exit() opens: in all survivors on one host together, and
/// in one survivor. By default the system allows a user 128 inotify instances.
constexpr int kHoldingDescriptors = 104;
constexpr int kMostHoldingDescriptors = 12;

}  // namespace

void RankWatch::say_goodbye() {
  std::unique_lock lock(mutex_);
  phase_ = RunPhase::saving;
  said_bye_ = true;
  tell(own_frame(WatchFrame::Kind::bye));
  const auto all_said = [this] {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (static_cast<int>(r) != rank_ && !peers_[r].said_bye) return false;
    }
    return true;
  };
  changed_.wait(lock, [&] { return failed_ || all_said(); });
  if (failed_) throw Error(ErrorCode::peer_lost, message_locked());
}

bool RankWatch::lost() const {
  const std::lock_guard lock(mutex_);
  return failure_ && failure_->lost;
}

bool RankWatch::lowest_survivor() const {
  const std::lock_guard lock(mutex_);
  return rank_ == (failure_ && failure_->rank == 0 ? 1 : 0);
}

void RankWatch::delay_exit() const {
  const int descriptors = std::min(kHoldingDescriptors / ranks_on_host_, kMostHoldingDescriptors);
  for (int i = 0; i < descriptors; ++i) {
    const int descriptor = inotify_init1(IN_CLOEXEC);
    if (descriptor < 0 || inotify_add_watch(descriptor, "/", IN_DELETE_SELF) < 0) return;
  }
}

void RankWatch::leave_together(double seconds) {
  std::unique_lock lock(mutex_);
  if (!failure_) return;
  const int lost = failure_->rank;
  const double deadline = monotonic_seconds() + seconds;
  // Two rounds, so that no rank ends while another one still waits for a third rank's report.
  for (const auto word : {WatchFrame::Kind::ready, WatchFrame::Kind::leaving}) {
    tell(own_frame(word));
    const auto here = [&] {
      const double now = monotonic_seconds();
      for (std::size_t r = 0; r < peers_.size(); ++r) {
        const Peer& peer = peers_[r];
        const bool survivor = static_cast<int>(r) != rank_ && static_cast<int>(r) != lost;
        const bool silent = now - peer.heard_at > 4 * beat_seconds_;  // Lost as well, or soon.
        if (survivor && peer.socket.open() && !silent && peer.leaves < word) return false;
      }
      return true;
    };
    while (!here() && monotonic_seconds() < deadline) {
      const double slice = std::min(beat_seconds_, deadline - monotonic_seconds());
      changed_.wait_for(lock, std::chrono::duration<double>(std::max(0.0, slice)));
    }
    if (word == WatchFrame::Kind::ready) delay_exit();
  }
}

bool RankWatch::must_report() {
  std::unique_lock lock(mutex_);
  if (!failure_) return true;
  if (failure_->lost) return true;
  if (failure_->rank != rank_) {
    tell(own_frame(WatchFrame::Kind::heard));
    const Peer& cause = peers_[static_cast<std::size_t>(failure_->rank)];
    changed_.wait_for(lock, kCauseTime, [&] { return !cause.socket.open(); });
    return false;
  }
  // Ranks that compute the same meet the same failure, and only the lowest of them reports it.
  const auto first = peers_.begin();
  const auto own = first + rank_;
  changed_.wait_for(lock, kLossReportTime, [&] {
    return std::all_of(first, own, [](const Peer& p) { return p.has_ended || !p.socket.open(); });
  });
  return std::none_of(first, own, [&](const Peer& p) {
    return p.said && failure_->message.ends_with(": " + *p.said);
  });
}

}  // namespace heliograph
