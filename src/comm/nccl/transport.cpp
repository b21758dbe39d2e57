#include "comm/nccl/transport.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "comm/collectives.hpp"
#include "comm/message_groups.hpp"
#include "comm/nccl/link.hpp"
#include "comm/nccl/setup.hpp"
#include "comm/rest.hpp"
#include "comm/ring.hpp"
#include "comm/threads/transport.hpp"
#include "core/copy_bytes.hpp"
#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

constexpr const char* kFlag = "--transport nccl";
/// The longest wait for the ranks to leave each other, in seconds. Nothing is lost if they do not.
constexpr double kGoodbyeSeconds = 10;

/// The messages of one channel, which have a communicator of NCCL and a stream of their own.
struct Lane {
  explicit Lane(Channel channel) : groups(channel) {}
  bool in_flight() const { return groups.gathers() || groups.under_way() > 0; }

  std::optional<NcclLink> link;  ///< None for a single rank.
  MessageGroups groups;
  Ring<Progress> posted_at;  ///< Of each group under way.
  double progress_at = 0;
  std::int64_t bytes = 0;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, int device, const NcclTransportOptions& options)
      : host_(host), options_(options), exceptions_(std::uncaught_exceptions()) {
    lanes_.emplace_back(Channel::halo);
    if (options.moves_weights) lanes_.emplace_back(Channel::weights);
    const int chosen = device % require_cuda_devices(kFlag);
    if (size() == 1) return;
    refuse_shared_devices(host_, chosen);
    const std::vector<NcclLink::Id> ids = share_ids(host_, lanes_.size());
    try {
      for (std::size_t i = 0; i < lanes_.size(); ++i) {
        NcclLink& link = lanes_[i].link.emplace(chosen);
        link.connect(ids[i], rank(), size());
        await_ready(link, "the ranks did not connect");
      }
    } catch (...) {
      give_up();
      throw;
    }
  }

  ~NcclCommunicator() override {
    host_.set_progress(progress());  // The host names it if an exception passes.
    if (halo().link && !halo().link->given_up()) end();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool sends_in_groups() const override { return true; }
  bool moves_device_memory(Channel channel) const override {
    return has_lane(channel) || host_.moves_device_memory(channel);
  }

  MemorySource* message_memory(Channel channel) override {
    const bool registers = options_.registers_buffers && halo().link && channel == Channel::halo;
    return registers ? &registered_ : nullptr;
  }

  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override {
    host_.set_progress(progress());
    if (!has_lane(channel) || (channel != Channel::halo && !on_device(sends, receives))) {
      return host_.post(channel, sends, receives);
    }
    throw_if_failed();
    check_batch(*this, sends, receives);
    const std::size_t lane = channel == Channel::halo ? 0 : 1;
    const std::uint64_t group = lanes_[lane].groups.add(sends, receives);
    if (group == 0) return {};
    for (const SendMessage& send : sends) {
      lanes_[lane].bytes += static_cast<std::int64_t>(send.bytes);
    }
    return {(lane + 1) << kLaneShift | group};
  }

  bool orders_on_device(Channel channel) const override { return has_lane(channel); }

  void expect_exchanges(std::size_t exchanges) override {
    if (!halo().link) return;
    await([this] { return !in_flight(); });
    call(halo(), [&] { halo().link->reserve(exchanges); });
  }

  void rehearse(bool on) override { rehearses_ = on; }

  void flush() override { flush_behind(nullptr); }
  void flush_after(Device& device) override { flush_behind(device.queue()); }

  void wait_on(Device& device, Ticket ticket) override {
    (void)device.queue()->stream();  // Its work has the same segments whatever is done by now.
    Lane* const lane = lane_of(ticket);
    if (lane == nullptr) return host_.wait(ticket);
    const std::uint64_t group = group_of(*lane, ticket);
    if (lane->groups.done(group)) return;
    await([&] { return lane->groups.done(group) || lane->link->launched() >= group; });
    if (lane->groups.done(group)) return;
    call(*lane, [&] { lane->link->join(group, *device.queue(), look_); });
  }

  void wait(Ticket ticket) override {
    send_groups();
    Lane* const lane = lane_of(ticket);
    if (lane == nullptr) return host_.wait(ticket);
    await([lane, group = group_of(*lane, ticket)] { return lane->groups.done(group); });
  }

  bool done(Ticket ticket) override {
    send_groups();
    Lane* const lane = lane_of(ticket);
    if (lane == nullptr) return host_.done(ticket);
    const std::uint64_t group = group_of(*lane, ticket);
    try {
      look();
    } catch (const Error&) {
      return true;  // `wait` will throw the failure.
    }
    return lane->groups.done(group);
  }

  void throw_if_failed() override {
    try {
      host_.throw_if_failed();
    } catch (...) {
      give_up();
      throw;
    }
  }

  void abort(const std::string& reason) noexcept override {
    host_.set_progress(progress());
    host_.abort(reason);
    give_up();
  }

  std::int64_t bytes_sent(Channel channel) const override {
    std::int64_t bytes = host_.bytes_sent(channel);
    if (has_lane(channel)) bytes += lanes_[channel == Channel::halo ? 0 : 1].bytes;
    return bytes;
  }

 private:
  /// A ticket of the n-th lane, from 1, has n in its bits from here on; one of the host has 0.
  static constexpr int kLaneShift = 62;

  static bool on_device(std::span<const SendMessage> sends, std::span<const RecvMessage> receives) {
    return (!sends.empty() && sends[0].on_device) || (!receives.empty() && receives[0].on_device);
  }
  bool has_lane(Channel channel) const {
    return channel == Channel::halo || (channel == Channel::weights && lanes_.size() > 1);
  }
  Lane& halo() { return lanes_.front(); }
  Lane* lane_of(Ticket ticket) {
    const std::uint64_t number = ticket.id >> kLaneShift;
    return number == 0 || number > lanes_.size() ? nullptr : &lanes_[number - 1];
  }

  void flush_behind(cuda::Queue* queue) {
    if (rehearses_) {
      if (queue != nullptr) (void)queue->stream();  // What this loads must not meet a message.
      barrier(host_, Channel::evaluation);
    }
    send_groups(queue);
    if (!rehearses_) return;
    await([this] { return !in_flight(); });
    barrier(host_, Channel::evaluation);
  }

  void send_groups(cuda::Queue* queue = nullptr) {
    host_.set_progress(progress());
    host_.flush();
    for (Lane& lane : lanes_) {
      if (!lane.groups.gathers()) continue;
      await([&] { return lane.link->has_room(); });
      call(lane, [&] {
        lane.link->launch(lane.groups.sends(), lane.groups.receives(), queue);
        if (lane.groups.under_way() == 0) lane.progress_at = monotonic_seconds();
        lane.groups.leave();
        lane.posted_at.push(progress());
      });
    }
  }

  std::uint64_t group_of(const Lane& lane, Ticket ticket) const {
    const std::uint64_t group = ticket.id & ((std::uint64_t{1} << kLaneShift) - 1);
    if (group == 0 || !lane.groups.known(group)) refuse_ticket(*this, ticket);
    return group;
  }

  void await_ready(NcclLink& link, const char* otherwise) {
    await_ready(link, otherwise, options_.timeout_seconds);
  }
  void await_ready(NcclLink& link, const char* otherwise, double seconds) {
    const double deadline = monotonic_seconds() + seconds;
    Rest rest;
    while (!link.ready()) {
      host_.throw_if_failed();
      if (monotonic_seconds() > deadline) {
        throw_error(ErrorCode::peer_lost, "--transport nccl: {} within {}", otherwise,
                    describe_seconds(seconds));
      }
      rest();
    }
  }

  /// Memory for halo messages, registered with NCCL, which may wait for the device then.
  class RegisteredMemory final : public MemorySource {
   public:
    explicit RegisteredMemory(NcclCommunicator& owner) : owner_(owner) {}
    std::byte* take(std::size_t bytes) override { return owner_.take_registered(bytes); }
    void give_back(std::byte* begin, std::size_t /*bytes*/) noexcept override {
      owner_.give_back_registered(begin);
    }

   private:
    NcclCommunicator& owner_;
  };

  std::byte* take_registered(std::size_t bytes) {
    throw_if_failed();
    if (in_flight()) {
      throw_error(ErrorCode::usage,
                  "--nccl-register: a buffer was asked for while messages are in flight");
    }
    std::byte* begin = halo().link->take_registered(bytes);
    await_ready(*halo().link, "NCCL did not register a buffer");
    return begin;
  }

  void give_back_registered(std::byte* begin) noexcept {
    try {
      if (!halo().link->given_up()) look();
    } catch (...) {
      // The failure ends the messages.
    }
    if (in_flight()) abort(kEndedInFlight);  // Else the wait for the device would never end.
    NcclLink& link = *halo().link;
    link.give_back_registered(begin, options_.abort_seconds);
    try {
      if (!link.given_up()) await_ready(link, "NCCL did not let go of a buffer");
    } catch (...) {
      give_up();
    }
  }

  bool in_flight() const { return std::ranges::any_of(lanes_, &Lane::in_flight); }

  /// Takes note of what NCCL has done, without waiting. Throws what the link throws.
  static void advance(Lane& lane) {
    (void)lane.link->launched();
    while (lane.link->take_done()) {
      lane.groups.pop_oldest();
      lane.posted_at.pop();
      lane.progress_at = monotonic_seconds();
    }
    if (!lane.link->oldest_begins()) lane.progress_at = monotonic_seconds();  // No rank is late.
  }

  /// Runs `action` on the link of a lane and fails the run if that throws.
  template <class Action>
  void call(Lane& lane, Action action) {
    try {
      action();
    } catch (const Error& error) {
      throw_if_failed();
      std::string text = error.what();
      if (lane.groups.under_way() > 0) text += "; it waits for " + lane.groups.describe_oldest();
      fail(lane, text);
    }
  }

  void look() {
    throw_if_failed();
    for (Lane& lane : lanes_) call(lane, [&] { advance(lane); });
  }

  /// A look of a wait, the first or a later one, which throws after the deadline.
  void look_again(bool first) {
    if (first) {
      wait_began_ = monotonic_seconds();
      rest_ = {};
    } else {
      rest_();
    }
    look();
    const double deadline = monotonic_seconds() - options_.timeout_seconds;
    for (Lane& lane : lanes_) {
      if (lane.groups.under_way() == 0) continue;
      if (std::max(wait_began_, lane.progress_at) >= deadline) continue;
      fail(lane, lane.groups.describe_stall(options_.timeout_seconds));
    }
  }

  /// Polls until `holds()`.
  template <class Condition>
  void await(Condition holds) {
    look_again(true);
    while (!holds()) look_again(false);
  }

  /// Names what the rank did when it posted the group that failed or did not come: it may be ahead.
  [[noreturn]] void fail(const Lane& lane, const std::string& reason) {
    if (!lane.posted_at.empty()) {
      set_progress(lane.posted_at[lane.link->under_way_before_failure()]);
    }
    abort(reason);
    host_.throw_if_failed();  // With the text that all ranks get.
    throw Error(ErrorCode::peer_lost, reason);
  }

  void give_up() noexcept {
    for (Lane& lane : lanes_) {
      if (lane.link) lane.link->give_up(options_.abort_seconds);
    }
  }

  void end() noexcept {
    try {
      const bool passing = std::uncaught_exceptions() > exceptions_;
      for (Lane& lane : lanes_) {
        if (!passing) advance(lane);
      }
      if (in_flight()) return abort(kEndedInFlight);
      if (passing) return give_up();
      for (Lane& lane : lanes_) {
        lane.link->leave();
        await_ready(*lane.link, "the ranks did not leave each other",
                    std::min(kGoodbyeSeconds, options_.timeout_seconds));
        lane.link->close();
      }
    } catch (...) {
      give_up();
    }
  }

  Communicator& host_;
  const NcclTransportOptions options_;
  const int exceptions_;
  std::deque<Lane> lanes_;  ///< Of the halo channel, and of the weights channel if NCCL moves it.
  RegisteredMemory registered_{*this};
  bool rehearses_ = false;
  double wait_began_ = 0;
  Rest rest_;
  const std::function<void(bool)> look_ = [this](bool first) { look_again(first); };
};

}  // namespace

bool nccl_built() noexcept { return true; }
bool nccl_registers() noexcept { return NcclLink::registers(); }

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, int device,
                                                     const NcclTransportOptions& options) {
  return std::make_unique<NcclCommunicator>(host, device, options);
}

void run_nccl_ranks(int ranks, const NcclTransportOptions& options,
                    const std::function<void(Communicator&)>& body) {
  const int devices = require_cuda_devices(kFlag);
  if (ranks > devices) {
    throw_error(ErrorCode::usage,
                "--transport nccl: {} ranks need as many CUDA devices, and this process has {}; "
                "ranks can share one by --transport threads",
                ranks, devices);
  }
  ThreadTransportOptions of_host;
  of_host.timeout_seconds = options.timeout_seconds;
  of_host.copy = copy_by_cuda;
  of_host.on_thread = select_cuda_device;
  run_ranks(ranks, of_host,
            [&](Communicator& host) { body(*make_nccl_communicator(host, host.rank(), options)); });
}

}  // namespace heliograph
