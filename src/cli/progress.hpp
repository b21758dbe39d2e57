#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "heliograph/log.hpp"
#include "heliograph/train.hpp"

namespace heliograph::cli {

/// What a user sees on stderr while a command runs: log lines and the state of the epochs.
/// On a terminal one live line, redrawn at most ten times a second; elsewhere a line every few
/// seconds and one for the last epoch. Safe to use from several threads.
class Progress {
 public:
  /// `epochs` 0: log lines only. `quiet` lets errors alone through; main prints those.
  Progress(int epochs, bool quiet, LogLevel level);

  void log(LogLevel level, std::string_view message);
  /// Calls `log`; must not outlive this.
  LogCallback callback() {
    return [this](LogLevel level, std::string_view message) { log(level, message); };
  }

  /// Shows what is being done before the first epoch.
  void phase(const std::string& text);

  void epoch(const EpochReport& report);

  /// Shows the last epoch and leaves the line.
  void finish();

  /// As `finish`, from a process that ends by force: gives up where another thread draws.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;

  void draw_live();
  void print_plain();
  void clear_live();
  void finish_locked();

  std::timed_mutex mutex_;
  int epochs_;
  bool quiet_;
  LogLevel level_;
  bool terminal_;
  bool utf8_;
  bool live_ = false;     ///< A live line stands on the terminal.
  bool pending_ = false;  ///< The last epoch has not been shown.
  std::optional<EpochReport> last_;
  std::optional<double> val_;
  double epoch_seconds_ = 0;  ///< Smoothed.
  double eta_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace heliograph::cli
