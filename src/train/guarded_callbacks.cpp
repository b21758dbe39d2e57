#include "train/guarded_callbacks.hpp"

#include <utility>

namespace heliograph {

/// A callback that calls `function`, or none if `function` is empty.
template <class Function>
auto GuardedCallbacks::guard(const Function& function) {
  if (!function) return Function();
  return Function([this, &function](auto&&... args) {
    try {
      return function(std::forward<decltype(args)>(args)...);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
      throw;
    }
  });
}

GuardedCallbacks::GuardedCallbacks(const TrainCallbacks& user) : guarded_(user) {
  guarded_.on_epoch = guard(user.on_epoch);
  guarded_.on_resume = guard(user.on_resume);
  guarded_.log = guard(user.log);
}

void GuardedCallbacks::rethrow_first() const {
  if (first_) std::rethrow_exception(first_);
}

}  // namespace heliograph
