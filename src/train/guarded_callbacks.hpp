#pragma once

#include <exception>
#include <mutex>

#include "heliograph/train.hpp"

namespace heliograph {

/// Calls a user's callbacks and keeps the first exception that one of them throws: ranks tell each
/// other only its text, and the caller of the run gets the exception itself.
class GuardedCallbacks {
 public:
  /// `user` must outlive the object.
  explicit GuardedCallbacks(const TrainCallbacks& user);

  /// The same callbacks, for any thread; valid while the object lives.
  const TrainCallbacks& get() const { return guarded_; }

  /// Throws the exception that was kept, if there is one. Call it after the ranks have ended.
  void rethrow_first() const;

 private:
  template <class Function>
  auto guard(const Function& function);

  TrainCallbacks guarded_;
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace heliograph
