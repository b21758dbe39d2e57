#include "signals.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace heliograph::cuda_emulation {

void take_signal(int number, void (*handler)(int, siginfo_t*, void*), struct sigaction& before) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, &action, &before) != 0) {
    throw std::system_error(errno, std::generic_category(), "answering a signal");
  }
}

void hand_back(const siginfo_t& info, const char* text, const struct sigaction& before) {
  const auto written = write(STDERR_FILENO, text, std::strlen(text));
  (void)written;
  sigaction(info.si_signo, &before, nullptr);
  if (is_sent(info)) raise(info.si_signo);
}

}  // namespace heliograph::cuda_emulation
