#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "heliograph/log.hpp"
#include "heliograph/train.hpp"

namespace heliograph::cli {

/// Prints to stderr while a command runs: log lines and the state of training. On a terminal that
/// is one live line, redrawn at most ten times a second; elsewhere a line every few seconds and one
/// for the last epoch. Safe to use from several threads.
class Progress {
 public:
  /// `epochs`: of the run; 0 if there are none. `quiet`: prints nothing. main prints errors.
  Progress(int epochs, bool quiet, LogLevel level);

  void log(LogLevel level, std::string_view message);
  /// A callback that calls `log`; must not outlive the object.
  LogCallback callback() {
    return [this](LogLevel level, std::string_view message) { log(level, message); };
  }

  /// Shows, on a terminal, what is being done before the first epoch.
  void phase(const std::string& text);

  void epoch(const EpochReport& report);

  /// Shows the last epoch and ends the live line.
  void finish();

  /// As `finish`, for a process that is about to end: does nothing if another thread is printing.
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
  bool live_ = false;     ///< The live line is on the terminal.
  bool pending_ = false;  ///< The last epoch has not been shown.
  std::optional<EpochReport> last_;
  int first_epoch_ = 0;  ///< Of this process: later than 0 if the run is resumed.
  std::optional<double> val_;
  std::set<std::string, std::less<>> warned_;
  double epoch_seconds_ = 0;  ///< Moving average.
  double eta_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace heliograph::cli
