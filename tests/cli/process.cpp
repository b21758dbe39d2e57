#include "cli/process.hpp"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "cli/files.hpp"
#include "support/files.hpp"

namespace heliograph::test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void execute(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<std::string> words{HELIOGRAPH_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  ::setenv("TERM", "xterm", 1);
  ::setenv("LC_ALL", "C.UTF-8", 1);
  ::execv(HELIOGRAPH_COMMAND, pointers.data());
  ::_exit(127);
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The end for writing of a pipe whose other end is closed.
int open_unread() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  ::close(ends[0]);
  return ends[1];
}

int open_new(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("cannot open " + path.string());
  return file;
}

}  // namespace

Outcome run_command(const std::vector<std::string>& arguments,
                    const std::function<void(int)>& during, int unread) {
  const TemporaryDirectory folder;
  const int out = unread == STDOUT_FILENO ? open_unread() : open_new(folder / "out");
  const int err = unread == STDERR_FILENO ? open_unread() : open_new(folder / "err");
  const pid_t child = ::fork();
  if (child == 0) execute(arguments, out, err);
  ::close(out);
  ::close(err);
  if (child < 0) throw std::runtime_error("fork failed");
  if (during) during(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome;
  outcome.code = exit_code(status);
  if (unread != STDOUT_FILENO) outcome.out = read_text(folder / "out");
  if (unread != STDERR_FILENO) outcome.err = read_text(folder / "err");
  return outcome;
}

Outcome run_on_terminal(const std::vector<std::string>& arguments, int columns) {
  const TemporaryDirectory folder;
  const int out = open_new(folder / "out");
  int master = -1, terminal = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  if (::openpty(&master, &terminal, nullptr, nullptr, &size) != 0) {
    throw std::runtime_error("openpty failed");
  }
  const pid_t child = ::fork();
  if (child == 0) execute(arguments, out, terminal);
  ::close(out);
  ::close(terminal);
  if (child < 0) throw std::runtime_error("fork failed");
  Outcome outcome;
  std::array<char, 4096> buffer{};
  // `read` fails after the child has closed its end.
  for (ssize_t got = 0; (got = ::read(master, buffer.data(), buffer.size())) > 0;) {
    outcome.err.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(master);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.code = exit_code(status);
  outcome.out = read_text(folder / "out");
  return outcome;
}

bool wait_until(const std::function<bool()>& done, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace heliograph::test
