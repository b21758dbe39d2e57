#include "block.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "fibers.hpp"

constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace heliograph::cuda {

constexpr std::size_t kCanary = 64;
alignas(16) thread_local unsigned char heliograph_shared[cuda_emulation::kMostShared +
                                                         kCanary];  // see core/cuda/launch.hpp

}  // namespace heliograph::cuda

namespace heliograph::cuda_emulation {
namespace {

constexpr unsigned kWarp = 32;

struct DeviceThread {
  enum class State { fresh, ready, waiting, ended };
  State state = State::fresh;
  std::unique_ptr<Fiber> fiber;
  Meeting meeting = Meeting::none;
  unsigned mask = 0;
  std::uint64_t value = 0;
  int argument = 0;
  int width = 0;
  std::uint64_t result = 0;
};
using State = DeviceThread::State;

const char* name_of(Meeting meeting) {
  static constexpr std::array kNames = {"nothing",     "__syncthreads",   "__syncwarp",
                                        "__shfl_sync", "__shfl_xor_sync", "__ballot_sync"};
  return kNames[static_cast<std::size_t>(meeting)];
}

std::string hex(unsigned mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

/// The block that runs on this CPU thread.
class Block {
 public:
  void run(unsigned threads, bool backwards, const std::function<void()>& body) {
    if (threads_.size() < threads) threads_.resize(threads);
    count_ = threads;
    backwards_ = backwards;
    live_ = threads;
    at_barrier_ = 0;
    failure_.clear();
    for (unsigned t = 0; t < count_; ++t) threads_[t].state = State::fresh;
    while (live_ > 0 && failure_.empty()) {
      bool moved = false;
      for (turn_ = 0; turn_ < count_ && failure_.empty(); ++turn_) moved |= advance(body);
      if (!moved && failure_.empty()) failure_ = describe_wait();
    }
    // Functions that never ended stay on their fibers for good.
    if (!failure_.empty()) {
      for (DeviceThread& t : threads_) t.fiber.reset();
    }
  }

  const std::string& failure() const { return failure_; }

  void meet_block() {
    DeviceThread& self = threads_[current_];
    self.meeting = Meeting::block;
    ++at_barrier_;
    self.state = State::waiting;
    release_barrier();
    if (self.state == State::waiting) wait();
    self.meeting = Meeting::none;
  }

  std::uint64_t meet_warp(Meeting what, unsigned mask, std::uint64_t value, int argument,
                          int width) {
    DeviceThread& self = threads_[current_];
    const unsigned first = current_ / kWarp * kWarp;
    self = {State::waiting, std::move(self.fiber), what, mask, value, argument, width};
    if ((mask >> (current_ % kWarp) & 1U) == 0) {
      failure_ = "thread " + std::to_string(current_) + " calls " + name_of(what) + "(" +
                 hex(mask) + "), whose mask leaves it out";
      wait();
    }
    // The lane that runs last usually comes last, so most calls need not ask the others.
    const unsigned last = backwards_ ? std::countr_zero(mask) : std::bit_width(mask) - 1;
    if (!has_come(first + last, self) || missing_lane(first, self) != kWarp) {
      wait();
    } else {
      exchange(first, what, mask);
    }
    self.meeting = Meeting::none;
    return self.result;
  }

 private:
  unsigned thread_of(unsigned turn) const { return backwards_ ? count_ - 1 - turn : turn; }

  void choose(unsigned t) {
    current_ = t;
    threadIdx = dim3(t);
  }

  /// Lets the thread whose turn it is run until it waits or ends, and those that it hands over to;
  /// false if it cannot.
  bool advance(const std::function<void()>& body) {
    DeviceThread& thread = threads_[thread_of(turn_)];
    if (thread.state == State::ended || thread.state == State::waiting) return false;
    choose(thread_of(turn_));
    ended_ = true;
    if (thread.state == State::fresh) {
      if (free_.empty()) free_.push_back(std::make_unique<Fiber>());
      thread.fiber = std::move(free_.back());
      free_.pop_back();
      thread.state = State::ready;
      thread.fiber->start(body);
    } else {
      thread.fiber->resume();
    }
    if (ended_) {
      DeviceThread& last = threads_[current_];
      last.state = State::ended;
      free_.push_back(std::move(last.fiber));
      --live_;
      release_barrier();
    }
    return true;
  }

  /// Leaves the fiber; comes back when the thread is resumed.
  void wait() {
    if (failure_.empty() && turn_ + 1 < count_) {
      const unsigned next = thread_of(turn_ + 1);
      if (threads_[next].state == State::ready) {
        // Both usually wait at the same call, so the processor predicts the return address.
        ++turn_;
        choose(next);
        return Fiber::wait_and_resume(*threads_[next].fiber);
      }
    }
    ended_ = false;
    Fiber::wait();
  }

  /// Threads that have ended are not waited for.
  void release_barrier() {
    if (at_barrier_ == 0 || at_barrier_ != live_) return;
    at_barrier_ = 0;
    for (unsigned t = 0; t < count_; ++t) {
      if (threads_[t].state == State::waiting) threads_[t].state = State::ready;
    }
  }

  /// The first lane for which `self` has to wait; kWarp: none.
  unsigned missing_lane(unsigned first, const DeviceThread& self) const {
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if ((self.mask >> lane & 1U) == 0) continue;
      if (!has_come(first + lane, self)) return lane;
    }
    return kWarp;
  }
  /// Whether thread `t` waits where `self` does.
  bool has_come(unsigned t, const DeviceThread& self) const {
    if (t >= count_) return false;
    const DeviceThread& other = threads_[t];
    return other.state == State::waiting && other.meeting == self.meeting &&
           other.mask == self.mask;
  }

  void exchange(unsigned first, Meeting what, unsigned mask) {
    std::array<std::uint64_t, kWarp> values{};
    unsigned votes = 0;
    for (unsigned left = mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(left));
      DeviceThread& thread = threads_[first + lane];
      thread.state = State::ready;
      values[lane] = thread.value;
      if (thread.value != 0) votes |= 1U << lane;
    }
    if (what == Meeting::warp) return;
    for (unsigned left = mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(left));
      DeviceThread& thread = threads_[first + lane];
      if (what == Meeting::ballot) {
        thread.result = votes;
        continue;
      }
      // What a lane outside the mask holds is not defined.
      const unsigned source = source_of(what, lane, thread.argument, thread.width);
      thread.result = (mask >> source & 1U) != 0 ? values[source] : ~0ULL;
    }
  }

  /// `width`: a power of 2.
  static unsigned source_of(Meeting what, unsigned lane, int argument, int width) {
    const unsigned within = static_cast<unsigned>(width) - 1;
    const auto distance = static_cast<unsigned>(argument);
    if (what == Meeting::shuffle) return (lane & ~within) + (distance & within);
    const unsigned source = lane ^ distance;
    return (source & ~within) == (lane & ~within) ? source : lane;
  }

  std::string describe(unsigned t) const {
    if (t >= count_) return "is not in the block";
    const DeviceThread& thread = threads_[t];
    if (thread.state == State::ended) return "has ended";
    if (thread.meeting == Meeting::block) return "waits in __syncthreads";
    return std::string("waits in ") + name_of(thread.meeting) + "(" + hex(thread.mask) + ")";
  }

  std::string describe_wait() const {
    for (unsigned t = 0; t < count_; ++t) {
      const DeviceThread& thread = threads_[t];
      if (thread.state != State::waiting || thread.meeting == Meeting::block) continue;
      const unsigned first = t / kWarp * kWarp;
      const unsigned other = first + missing_lane(first, thread);
      return "thread " + std::to_string(t) + " " + describe(t) + " for thread " +
             std::to_string(other) + ", which " + describe(other);
    }
    return "its threads wait for each other";
  }

  std::vector<DeviceThread> threads_;
  std::vector<std::unique_ptr<Fiber>> free_;
  unsigned count_ = 0;
  bool backwards_ = false;
  unsigned live_ = 0;
  unsigned at_barrier_ = 0;
  unsigned turn_ = 0;  ///< How many threads came before the one that runs, in order.
  unsigned current_ = 0;
  bool ended_ = false;
  std::string failure_;
};

Block& this_block() {
  thread_local Block block;
  return block;
}

}  // namespace

void meet_block() { this_block().meet_block(); }

std::uint64_t meet_warp(Meeting what, unsigned mask, std::uint64_t value, int argument, int width) {
  return this_block().meet_warp(what, mask, value, argument, width);
}

std::string run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, bool backwards,
                     const std::function<void()>& thread) {
  constexpr unsigned char kUnset = 0xff;  // as floats: NaN
  unsigned char* shared = cuda::heliograph_shared;
  gridDim = grid;
  blockDim = block;
  for (unsigned i = 0; i < grid.x; ++i) {
    const unsigned b = backwards ? grid.x - 1 - i : i;
    blockIdx = dim3(b);
    std::memset(shared, kUnset, shared_bytes + cuda::kCanary);
    this_block().run(block.x, backwards, thread);
    std::string failure = this_block().failure();
    for (std::size_t at = shared_bytes; at < shared_bytes + cuda::kCanary; ++at) {
      if (shared[at] != kUnset && failure.empty()) {
        failure = "shared memory was written behind the " + std::to_string(shared_bytes) +
                  " bytes that were asked for";
      }
    }
    if (!failure.empty()) {
      return "block " + std::to_string(b) + " of " + std::to_string(grid.x) + ": " + failure;
    }
  }
  return {};
}

}  // namespace heliograph::cuda_emulation
