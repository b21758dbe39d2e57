#pragma once

#include <cstdint>
#include <memory>

#include "core/function_ref.hpp"

namespace heliograph {

/// The CPU threads of one rank. The calling thread works too, so `threads == 1` starts none.
/// Tasks start in order but run concurrently; results must not depend on which thread runs them.
class ThreadPool {
 public:
  /// Throws Error(resource) if the system has no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept;

  /// Runs task(i) for i in [0, tasks) and returns when all are done. Allocates nothing. Rethrows
  /// the first exception once every task has ended. Not reentrant.
  void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> task);

  /// Runs body(begin, end) over [0, count) in pieces of `grain`, whatever the number of threads.
  void for_ranges(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heliograph
