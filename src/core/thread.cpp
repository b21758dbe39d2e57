#include "core/thread.hpp"

#include <cstring>
#include <memory>
#include <utility>

#include "heliograph/error.hpp"

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
    throw Error(ErrorCode::resource,
                "cannot start thread '" + name + "': " + std::strerror(status));
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

}  // namespace heliograph
