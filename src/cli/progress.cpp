#include "cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/text.hpp"
#include "train/options/values.hpp"

namespace heliograph::cli {
namespace {

constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr auto kPlainEvery = std::chrono::seconds(5);
constexpr std::size_t kWidestBar = 30, kNarrowestBar = 8;

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text = value;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/// Prints with one write, so that lines of several threads do not mix.
void to_stderr(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string bar(double share, std::size_t width, bool utf8) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    text += i < full ? (utf8 ? "\u2501" : "=") : (utf8 ? "\u2500" : "-");
  }
  return text;
}

}  // namespace

Progress::Progress(int epochs, bool quiet, LogLevel level)
    : epochs_(epochs),
      quiet_(quiet),
      level_(level),
      terminal_(!quiet && stderr_is_terminal()),
      utf8_(locale_is_utf8()) {}

void Progress::log(LogLevel level, std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (quiet_ || level < level_) return;
  // Loading and training may warn of the same data.
  if (level == LogLevel::warning && !warned_.emplace(message).second) return;
  clear_live();
  const std::string kind = level == LogLevel::info ? "" : choice_name(level) + ": ";
  to_stderr(fmt::format("heliograph: {}{}\n", kind, message));
}

void Progress::phase(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!terminal_) return;
  to_stderr("\r\x1b[K" + text.substr(0, terminal_columns() - 1));
  live_ = true;
}

void Progress::epoch(const EpochReport& report) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  epoch_seconds_ = last_ ? 0.8 * epoch_seconds_ + 0.2 * report.seconds : report.seconds;
  if (report.val_metric) val_ = report.val_metric;
  // The clock starts with the first epoch, after setup.
  if (!last_) {
    first_epoch_ = report.epoch;
    start_ = now - std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(report.seconds));
  }
  last_ = report;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  eta_ = elapsed / (report.epoch + 1 - first_epoch_) * (epochs_ - report.epoch - 1);
  pending_ = true;
  if (quiet_) return;
  if (terminal_ && now - shown_ >= kRedrawEvery) draw_live();
  if (!terminal_ && now - shown_ >= kPlainEvery) print_plain();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  finish_locked();
}

void Progress::abandon() {
  const std::unique_lock lock(mutex_, std::chrono::milliseconds(50));
  if (lock.owns_lock()) finish_locked();
}

void Progress::finish_locked() {
  if (!quiet_ && pending_) {
    eta_ = 0;
    if (terminal_) {
      draw_live();
    } else {
      print_plain();
    }
  }
  if (live_) {
    to_stderr(last_ ? "\n" : "\r\x1b[K");
    live_ = false;
  }
}

void Progress::clear_live() {
  if (!live_) return;
  to_stderr("\r\x1b[K");
  live_ = false;
}

void Progress::draw_live() {
  const double done = last_->epoch + 1;
  std::string text = fmt::format("{}/{}  loss {:.4f}", last_->epoch + 1, epochs_, last_->loss);
  if (val_) text += fmt::format("  val {:.4f}", *val_);
  text += fmt::format("  {}/epoch  {}/epoch", human_seconds(epoch_seconds_),
                      human_bytes(static_cast<double>(last_->bytes.total())));
  if (eta_ > 0) text += "  ETA " + human_clock(eta_);
  // One column stays free because some terminals wrap a full line.
  const std::size_t room = terminal_columns() - 1;
  std::string line;
  if (room > text.size() + 1 + kNarrowestBar) {
    line = bar(done / epochs_, std::min(kWidestBar, room - text.size() - 1), utf8_) + " " + text;
  } else {
    line = text.substr(0, room);
  }
  to_stderr("\r" + line + "\x1b[K");
  live_ = true;
  pending_ = false;
  shown_ = Clock::now();
}

void Progress::print_plain() {
  std::string text =
      fmt::format("heliograph: epoch {}/{}: loss {:.4f}", last_->epoch + 1, epochs_, last_->loss);
  if (val_) text += fmt::format(", val {:.4f}", *val_);
  text += fmt::format(", {} and {} an epoch", human_seconds(epoch_seconds_),
                      human_bytes(static_cast<double>(last_->bytes.total())));
  if (eta_ > 0) text += fmt::format(", {} left", human_clock(eta_));
  to_stderr(text + "\n");
  pending_ = false;
  shown_ = Clock::now();
}

}  // namespace heliograph::cli
