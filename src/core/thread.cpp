#include "core/thread.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "core/control_groups.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

void* enter(void* argument) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
  return nullptr;
}

}  // namespace

Thread::Thread(std::string name, std::function<void()> body) {
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int status = pthread_create(&handle_, &attributes, enter, owned.get());
  pthread_attr_destroy(&attributes);
  if (status != 0) {
    throw_error(ErrorCode::resource, "cannot start thread '{}': {}", name, std::strerror(status));
  }
  owned.release();
  running_ = true;
  pthread_setname_np(handle_, name.substr(0, 15).c_str());
}

Thread::Thread(Thread&& other) noexcept
    : handle_(other.handle_), running_(std::exchange(other.running_, false)) {}

Thread::~Thread() { join(); }

void Thread::join() noexcept {
  if (std::exchange(running_, false)) pthread_join(handle_, nullptr);
}

FineTimer::FineTimer() noexcept : before_(prctl(PR_GET_TIMERSLACK)) {
  prctl(PR_SET_TIMERSLACK, 1000UL);
}

FineTimer::~FineTimer() {
  prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(std::max(before_, 0)));
}

int allowed_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  // The machine has more CPUs than cpu_set_t can hold.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int usable_cores() { return std::min(allowed_cpus(), quota_of_cpus().value_or(allowed_cpus())); }

bool keep_to_share(int share, int shares) noexcept {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return false;
  const int count = CPU_COUNT(&all);
  const int begin = shares <= count ? share * count / shares : share % count;
  const int end = shares <= count ? (share + 1) * count / shares : begin + 1;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  int index = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (index >= begin && index < end) CPU_SET(cpu, &mine);
    ++index;
  }
  return sched_setaffinity(0, sizeof(mine), &mine) == 0;
}

}  // namespace heliograph
