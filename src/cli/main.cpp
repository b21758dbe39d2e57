#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/signals.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "train/options/parse.hpp"
#include "train/processes.hpp"
#include "train/run/output_file.hpp"

namespace heliograph::cli {
namespace {

constexpr int kUnexpectedFailure = 1;

int complain(const char* sentence, int code) {
  std::fprintf(stderr, "heliograph: error: %s\n", sentence);
  return code;
}

/// Whether a file is a pipe or socket that nobody reads any more, as after `| head -1`.
bool reader_has_left(int file) {
  pollfd end{file, POLLOUT, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

int guarded(const std::vector<std::string>& words) {
  const int out_of_resources = static_cast<int>(ErrorCode::resource);
  const bool trains = !words.empty() && (words[0] == "train" || words[0] == "eval");
  std::optional<SignalWatch> watch;  // train and eval make their own.
  if (!trains) {
    const auto stop = [](int signal) {
      std::string written;
      for (const auto& path : abandon_files(true)) {
        written += (written.empty() ? "" : ", ") + path.string();
      }
      if (written.empty()) end_at_once(signal);
      write_past_locks(fmt::format("heliograph: stopped by {}; written before: {}\n",
                                   signal_name(signal), written));
      _exit(128 + signal);
    };
    watch.emplace(SignalActions{stop, {}, [] {}, {}});
  }
  try {
    const int code = run_command_line(words);
    // Output may still be in a buffer that a full disk does not take.
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (written || reader_has_left(STDOUT_FILENO)) return code;
    return complain("standard output cannot be written", out_of_resources);
  } catch (const Error& error) {
    const int code = complain(error.what(), exit_code(error.code()));
    if (trains) fail_waiting_processes(error);
    return code;
  } catch (const std::bad_alloc&) {
    return complain("out of memory", out_of_resources);
  } catch (const std::length_error&) {
    return complain("a size does not fit into memory", out_of_resources);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string what = error.code().message();
    return complain(fmt::format("cannot use {}: {}", error.path1().string(), what).c_str(),
                    out_of_resources);
  } catch (const std::system_error& error) {
    return complain(error.what(), out_of_resources);
  } catch (const std::exception& error) {
    return complain(fmt::format("unexpected: {}", error.what()).c_str(), kUnexpectedFailure);
  }
}

}  // namespace
}  // namespace heliograph::cli

int main(int argc, char** argv) {
  heliograph::cli::end_at_signals();
  // Writes beyond a file size limit, or to a pipe or socket that nobody reads any more, then fail
  // with an error and do not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  heliograph::name_options_as_flags();
  const int code = heliograph::cli::guarded(std::vector<std::string>(argv + 1, argv + argc));
  if (heliograph::devices_hang()) {
    // Destructors and exit handlers may wait forever for messages of the device.
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}
