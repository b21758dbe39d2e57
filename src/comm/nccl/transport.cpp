#include "comm/nccl/transport.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "comm/collectives.hpp"
#include "comm/nccl/channel_link.hpp"
#include "comm/nccl/setup.hpp"
#include "comm/rest.hpp"
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

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, int device, const NcclTransportOptions& options)
      : host_(host), options_(options), exceptions_(std::uncaught_exceptions()) {
    links_.emplace_back(Channel::halo);
    if (options.moves_weights) links_.emplace_back(Channel::weights);
    const int chosen = device % require_cuda_devices(kFlag);
    if (size() == 1) return;
    refuse_shared_devices(host_, chosen);
    const std::vector<NcclLink::Id> ids = share_ids(host_, links_.size());
    const auto turns = std::make_shared<NcclLink::Turns>();
    try {
      for (std::size_t i = 0; i < links_.size(); ++i) {
        NcclLink& nccl = links_[i].nccl.emplace(chosen, turns);
        nccl.connect(ids[i], rank(), size());
        await_ready(nccl, "the ranks did not connect");
      }
    } catch (...) {
      give_up();
      throw;
    }
  }

  ~NcclCommunicator() override {
    host_.set_progress(progress());  // The host names it if an exception passes.
    if (halo().nccl && !halo().nccl->given_up()) end();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool sends_in_groups() const override { return true; }
  bool moves_device_memory(Channel channel) const override {
    return number_of(channel) > 0 || host_.moves_device_memory(channel);
  }

  MemorySource* message_memory(Channel channel) override {
    const bool registers = options_.registers_buffers && halo().nccl && channel == Channel::halo;
    return registers ? &registered_ : nullptr;
  }

  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override {
    host_.set_progress(progress());
    const std::uint64_t number = number_of(channel);
    if (number == 0 || (channel != Channel::halo && !on_device(sends, receives))) {
      return host_.post(channel, sends, receives);
    }
    throw_if_failed();
    check_batch(*this, sends, receives);
    ChannelLink& link = links_[number - 1];
    const std::uint64_t group = link.groups.add(sends, receives);
    if (group == 0) return {};
    for (const SendMessage& send : sends) link.bytes += static_cast<std::int64_t>(send.bytes);
    return {number << kNumberShift | group};
  }

  bool orders_on_device(Channel channel) const override { return number_of(channel) > 0; }

  void expect_messages(std::size_t messages) override {
    if (!halo().nccl) return;
    await([this] { return !in_flight(); });
    call(halo(), [&] { halo().nccl->reserve(messages); });
  }

  void rehearse(bool on) override { rehearses_ = on; }

  void flush() override { flush_behind(nullptr); }
  void flush_after(Device& device) override { flush_behind(device.queue()); }

  void wait_on(Device& device, Ticket ticket) override {
    (void)device.queue()->stream();  // Its work has the same segments whatever is done by now.
    ChannelLink* const link = link_of(ticket);
    if (link == nullptr) return host_.wait(ticket);
    const std::uint64_t group = group_of(*link, ticket);
    if (link->groups.done(group)) return;
    await([&] { return link->groups.done(group) || link->nccl->launched() >= group; });
    if (link->groups.done(group)) return;
    call(*link, [&] { link->nccl->join(group, *device.queue(), look_); });
  }

  void wait(Ticket ticket) override {
    send_groups();
    ChannelLink* const link = link_of(ticket);
    if (link == nullptr) return host_.wait(ticket);
    await([link, group = group_of(*link, ticket)] { return link->groups.done(group); });
  }

  bool done(Ticket ticket) override {
    send_groups();
    ChannelLink* const link = link_of(ticket);
    if (link == nullptr) return host_.done(ticket);
    const std::uint64_t group = group_of(*link, ticket);
    try {
      look();
    } catch (const Error&) {
      return true;  // `wait` will throw the failure.
    }
    return link->groups.done(group);
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
    const std::uint64_t number = number_of(channel);
    return host_.bytes_sent(channel) + (number > 0 ? links_[number - 1].bytes : 0);
  }

 private:
  /// A ticket has the number of its link in the bits from here on; one of the host has 0.
  static constexpr int kNumberShift = 62;

  static bool on_device(std::span<const SendMessage> sends, std::span<const RecvMessage> receives) {
    return (!sends.empty() && sends[0].on_device) || (!receives.empty() && receives[0].on_device);
  }
  /// The number of a channel's link, counted from 1; 0 if the host moves its messages.
  std::uint64_t number_of(Channel channel) const {
    if (channel == Channel::halo) return 1;
    return channel == Channel::weights && links_.size() > 1 ? 2 : 0;
  }
  ChannelLink& halo() { return links_.front(); }
  ChannelLink* link_of(Ticket ticket) {
    const std::uint64_t number = ticket.id >> kNumberShift;
    return number == 0 || number > links_.size() ? nullptr : &links_[number - 1];
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
    for (ChannelLink& link : links_) {
      if (!link.groups.gathers()) continue;
      await([&] { return link.nccl->has_room(); });
      call(link, [&] {
        link.nccl->launch(link.groups.sends(), link.groups.receives(), queue);
        if (link.groups.under_way() == 0) link.progress_at = monotonic_seconds();
        link.groups.leave();
        link.posted_at.push(progress());
      });
    }
  }

  std::uint64_t group_of(const ChannelLink& link, Ticket ticket) const {
    const std::uint64_t group = ticket.id & ((std::uint64_t{1} << kNumberShift) - 1);
    if (group == 0 || !link.groups.known(group)) refuse_ticket(*this, ticket);
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
    std::byte* begin = halo().nccl->take_registered(bytes);
    await_ready(*halo().nccl, "NCCL did not register a buffer");
    return begin;
  }

  void give_back_registered(std::byte* begin) noexcept {
    try {
      if (!halo().nccl->given_up()) look();
    } catch (...) {
      // The failure ends the messages.
    }
    if (in_flight()) abort(kEndedInFlight);  // Else the wait for the device would never end.
    NcclLink& nccl = *halo().nccl;
    nccl.give_back_registered(begin, options_.abort_seconds);
    try {
      if (!nccl.given_up()) await_ready(nccl, "NCCL did not let go of a buffer");
    } catch (...) {
      give_up();
    }
  }

  bool in_flight() const { return std::ranges::any_of(links_, &ChannelLink::in_flight); }

  /// Runs `action`, which uses the link, and fails the run if it throws.
  template <class Action>
  void call(ChannelLink& link, Action action) {
    try {
      action();
    } catch (const Error& error) {
      throw_if_failed();
      std::string text = error.what();
      if (link.groups.under_way() > 0) text += "; it waits for " + link.groups.describe_oldest();
      fail(link, text);
    }
  }

  void look() {
    throw_if_failed();
    for (ChannelLink& link : links_) call(link, [&] { link.advance(); });
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
    for (ChannelLink& link : links_) {
      if (link.groups.under_way() == 0) continue;
      if (std::max(wait_began_, link.progress_at) >= deadline) continue;
      fail(link, link.groups.describe_stall(options_.timeout_seconds));
    }
  }

  /// Polls until `holds()`.
  template <class Condition>
  void await(Condition holds) {
    look_again(true);
    while (!holds()) look_again(false);
  }

  /// Names what the rank did when it posted the group that failed or did not come: it may be ahead.
  [[noreturn]] void fail(const ChannelLink& link, const std::string& reason) {
    if (!link.posted_at.empty()) {
      set_progress(link.posted_at[link.nccl->under_way_before_failure()]);
    }
    abort(reason);
    host_.throw_if_failed();  // With the text that all ranks get.
    throw Error(ErrorCode::peer_lost, reason);
  }

  /// Aborts all links at once: NCCL frees memory then, which waits for all kernels of the device
  /// (NVIDIA/nccl#564), and so for those of the other links.
  void give_up() noexcept {
    const double deadline = monotonic_seconds() + options_.abort_seconds;
    for (ChannelLink& link : links_) {
      if (link.nccl) link.nccl->begin_to_give_up();
    }
    for (ChannelLink& link : links_) {
      if (link.nccl) link.nccl->give_up(deadline - monotonic_seconds());
    }
  }

  void end() noexcept {
    try {
      const bool passing = std::uncaught_exceptions() > exceptions_;
      for (ChannelLink& link : links_) {
        if (!passing) link.advance();
      }
      if (in_flight()) return abort(kEndedInFlight);
      if (passing) return give_up();
      for (ChannelLink& link : links_) {
        link.nccl->leave();
        await_ready(*link.nccl, "the ranks did not leave each other",
                    std::min(kGoodbyeSeconds, options_.timeout_seconds));
        link.nccl->close();
      }
    } catch (...) {
      give_up();
    }
  }

  Communicator& host_;
  const NcclTransportOptions options_;
  const int exceptions_;
  /// Of the halo channel, and of the weights channel if NCCL moves it.
  std::deque<ChannelLink> links_;
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
