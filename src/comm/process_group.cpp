#include "comm/process_group.hpp"

#include <atomic>

namespace heliograph {
namespace {

std::atomic<ProcessGroup*> current_group{nullptr};

}  // namespace

ProcessGroup* ProcessGroup::current() noexcept { return current_group; }

void ProcessGroup::become_current() noexcept {
  ProcessGroup* none = nullptr;
  current_group.compare_exchange_strong(none, this);
}

ProcessGroup::~ProcessGroup() {
  ProcessGroup* self = this;
  current_group.compare_exchange_strong(self, nullptr);
}

}  // namespace heliograph
