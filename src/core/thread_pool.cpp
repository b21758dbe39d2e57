#include "core/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.hpp"

namespace heliograph {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable work_done;
  std::uint64_t generation = 0;
  bool stopping = false;
  int busy = 0;
  const FunctionRef<void(std::int64_t)>* task = nullptr;
  std::int64_t tasks = 0;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::vector<Thread> workers;

  // Joins here, not in ~ThreadPool, which does not run if starting a worker throws.
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work_ready.notify_all();
    for (Thread& worker : workers) worker.join();
  }

  void drain(const FunctionRef<void(std::int64_t)>& body, std::int64_t count) {
    for (;;) {
      const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      work_ready.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping) return;
      seen = generation;
      const auto* body = task;
      const std::int64_t count = tasks;
      lock.unlock();
      drain(*body, count);
      lock.lock();
      if (--busy == 0) work_done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  state_->workers.reserve(static_cast<std::size_t>(std::max(0, threads - 1)));
  for (int i = 1; i < threads; ++i) {
    state_->workers.emplace_back("worker " + std::to_string(i), [s = state_.get()] { s->work(); });
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const noexcept { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t tasks, FunctionRef<void(std::int64_t)> task) {
  State& s = *state_;
  if (s.workers.empty() || tasks <= 1) {
    for (std::int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  {
    const std::lock_guard lock(s.mutex);
    s.task = &task;
    s.tasks = tasks;
    s.next.store(0, std::memory_order_relaxed);
    s.failure = nullptr;
    s.busy = static_cast<int>(s.workers.size());
    ++s.generation;
  }
  s.work_ready.notify_all();
  s.drain(task, tasks);
  std::unique_lock lock(s.mutex);
  s.work_done.wait(lock, [&] { return s.busy == 0; });
  if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
}

void ThreadPool::for_ranges(std::int64_t count, std::int64_t grain,
                            FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const std::int64_t pieces = (count + grain - 1) / grain;
  run(pieces, [&](std::int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
}

}  // namespace heliograph
