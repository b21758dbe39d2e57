#include "comm/nccl/transport.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <vector>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "comm/collectives.hpp"
#include "comm/message_groups.hpp"
#include "comm/nccl/link.hpp"
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

/// Where a rank computes: equal for ranks that share a device.
struct Place {
  std::array<char, 40> machine{};  ///< Of its running kernel: containers do not differ.
  std::array<char, 40> device{};
  bool operator==(const Place&) const = default;
};

Place place_of(int device) {
  Place place;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  boot.read(place.machine.data(), place.machine.size() - 1);
  const std::string address = NcclLink::address(device);
  address.copy(place.device.data(), place.device.size() - 1);
  return place;
}

/// Names the two ranks, as NCCL's own refusal does not.
void refuse_shared_devices(Communicator& host, int device) {
  const Place mine = place_of(device);
  const std::vector<std::byte> bytes =
      gather_to_root(host, Channel::evaluation, std::as_bytes(std::span(&mine, 1)));
  std::vector<Place> places(bytes.size() / sizeof(Place));
  for (std::size_t b = 0; b < places.size(); ++b) {
    std::memcpy(&places[b], bytes.data() + b * sizeof(Place), sizeof(Place));
    for (std::size_t a = 0; a < b; ++a) {
      if (places[a] != places[b]) continue;
      throw_error(ErrorCode::usage,
                  "--transport nccl: ranks {} and {} are on one device, {}, and NCCL takes one "
                  "rank a device; use --transport threads or mpi",
                  a, b, places[a].device.data());
    }
  }
}

/// The id that rank 0 makes, on all ranks.
NcclLink::Id share_id(Communicator& host) {
  NcclLink::Id id{};
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  if (host.rank() == 0) {
    id = NcclLink::make_id();
    for (int peer = 1; peer < host.size(); ++peer) sends.push_back({peer, id.data(), id.size()});
  } else {
    receives.push_back({0, id.data(), id.size()});
  }
  host.wait(host.post(Channel::evaluation, sends, receives));
  return id;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, int device, const NcclTransportOptions& options)
      : host_(host), options_(options), exceptions_(std::uncaught_exceptions()) {
    const int chosen = device % require_cuda_devices(kFlag);
    if (size() == 1) return;
    refuse_shared_devices(host_, chosen);
    const NcclLink::Id id = share_id(host_);
    link_.emplace(chosen);
    try {
      link_->connect(id, rank(), size());
      await_ready("the ranks did not connect");
    } catch (...) {
      link_->give_up(options_.abort_seconds);
      throw;
    }
  }

  ~NcclCommunicator() override {
    host_.set_progress(progress());  // The host names it if an exception passes.
    if (link_ && !link_->given_up()) end();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool sends_in_groups() const override { return true; }
  bool moves_device_memory(Channel channel) const override {
    return channel == Channel::halo || host_.moves_device_memory(channel);
  }

  MemorySource* message_memory(Channel channel) override {
    const bool registers = options_.registers_buffers && link_ && channel == Channel::halo;
    return registers ? &registered_ : nullptr;
  }

  Ticket post(Channel channel, std::span<const SendMessage> sends,
              std::span<const RecvMessage> receives) override {
    host_.set_progress(progress());
    if (channel != Channel::halo) return host_.post(channel, sends, receives);
    throw_if_failed();
    check_batch(*this, sends, receives);
    const std::uint64_t group = groups_.add(sends, receives);
    if (group == 0) return {};
    for (const SendMessage& send : sends) halo_bytes_ += static_cast<std::int64_t>(send.bytes);
    return {kHaloTicket | group};
  }

  bool orders_on_device(Channel channel) const override { return channel == Channel::halo; }

  void expect_exchanges(std::size_t exchanges) override {
    if (!link_) return;
    await([this] { return !in_flight(); });
    call([&] { link_->reserve(exchanges); });
  }

  void rehearse(bool on) override { rehearses_ = on; }

  void flush() override { flush_behind(nullptr); }
  void flush_after(Device& device) override { flush_behind(device.queue()); }

  void wait_on(Device& device, Ticket ticket) override {
    (void)device.queue()->stream();  // Its work has the same segments whatever is done by now.
    if (ticket.id == 0) return;
    const std::uint64_t group = group_of(ticket);
    if (groups_.done(group)) return;
    await([&] { return groups_.done(group) || link_->launched() >= group; });
    if (groups_.done(group)) return;
    call([&] { link_->join(group, *device.queue(), look_); });
  }

  void wait(Ticket ticket) override {
    send_group();
    if (!is_halo(ticket)) return host_.wait(ticket);
    await([this, group = group_of(ticket)] { return groups_.done(group); });
  }

  bool done(Ticket ticket) override {
    send_group();
    if (!is_halo(ticket)) return host_.done(ticket);
    const std::uint64_t group = group_of(ticket);
    try {
      look();
    } catch (const Error&) {
      return true;  // `wait` will throw the failure.
    }
    return groups_.done(group);
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
    return channel == Channel::halo ? halo_bytes_ : host_.bytes_sent(channel);
  }

 private:
  static constexpr std::uint64_t kHaloTicket = std::uint64_t{1} << 63;
  static bool is_halo(Ticket ticket) { return (ticket.id & kHaloTicket) != 0; }

  void flush_behind(cuda::Queue* queue) {
    if (rehearses_) {
      if (queue != nullptr) (void)queue->stream();  // What this loads must not meet a message.
      barrier(host_, Channel::evaluation);
    }
    send_group(queue);
    if (!rehearses_) return;
    await([this] { return !in_flight(); });
    barrier(host_, Channel::evaluation);
  }

  void send_group(cuda::Queue* queue = nullptr) {
    host_.set_progress(progress());
    host_.flush();
    if (!groups_.gathers()) return;
    await([this] { return link_->has_room(); });
    call([&] {
      link_->launch(groups_.sends(), groups_.receives(), queue);
      if (groups_.under_way() == 0) progress_at_ = monotonic_seconds();
      groups_.leave();
      posted_at_.push(progress());
    });
  }

  std::uint64_t group_of(Ticket ticket) const {
    const std::uint64_t group = ticket.id & ~kHaloTicket;
    if (group == 0 || !groups_.known(group)) refuse_ticket(*this, ticket);
    return group;
  }

  void await_ready(const char* otherwise) { await_ready(otherwise, options_.timeout_seconds); }
  void await_ready(const char* otherwise, double seconds) {
    const double deadline = monotonic_seconds() + seconds;
    Rest rest;
    while (!link_->ready()) {
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
                  "--nccl-register: a buffer was asked for while halo messages are in flight");
    }
    std::byte* begin = link_->take_registered(bytes);
    await_ready("NCCL did not register a buffer");
    return begin;
  }

  void give_back_registered(std::byte* begin) noexcept {
    try {
      if (!link_->given_up()) look();
    } catch (...) {
      // The failure ends the messages.
    }
    if (in_flight()) abort(kEndedInFlight);  // Else the wait for the device would never end.
    link_->give_back_registered(begin, options_.abort_seconds);
    try {
      if (!link_->given_up()) await_ready("NCCL did not let go of a buffer");
    } catch (...) {
      give_up();
    }
  }

  bool in_flight() const { return groups_.gathers() || groups_.under_way() > 0; }

  /// Takes note of what NCCL has done, without waiting. Throws what the link throws.
  void advance() {
    (void)link_->launched();
    while (link_->take_done()) {
      groups_.pop_oldest();
      posted_at_.pop();
      progress_at_ = monotonic_seconds();
    }
    if (!link_->oldest_begins()) progress_at_ = monotonic_seconds();  // No other rank is late.
  }

  /// Runs `action` on the link and fails the run if that throws.
  template <class Action>
  void call(Action action) {
    try {
      action();
    } catch (const Error& error) {
      throw_if_failed();
      std::string text = error.what();
      if (groups_.under_way() > 0) text += "; it waits for " + groups_.describe_oldest();
      fail(text);
    }
  }

  void look() {
    throw_if_failed();
    call([this] { advance(); });
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
    if (groups_.under_way() > 0 &&
        monotonic_seconds() > std::max(wait_began_, progress_at_) + options_.timeout_seconds) {
      fail(groups_.describe_stall(options_.timeout_seconds));
    }
  }

  /// Polls until `holds()`.
  template <class Condition>
  void await(Condition holds) {
    look_again(true);
    while (!holds()) look_again(false);
  }

  /// Names what the rank did when it posted the group that failed or did not come: it may be ahead.
  [[noreturn]] void fail(const std::string& reason) {
    if (!posted_at_.empty()) set_progress(posted_at_[link_->under_way_before_failure()]);
    abort(reason);
    host_.throw_if_failed();  // With the text that all ranks get.
    throw Error(ErrorCode::peer_lost, reason);
  }

  void give_up() noexcept {
    if (link_) link_->give_up(options_.abort_seconds);
  }

  void end() noexcept {
    try {
      const bool passing = std::uncaught_exceptions() > exceptions_;
      if (!passing) advance();
      if (in_flight()) return abort(kEndedInFlight);
      if (passing) return give_up();
      link_->leave();
      await_ready("the ranks did not leave each other",
                  std::min(kGoodbyeSeconds, options_.timeout_seconds));
      link_->close();
    } catch (...) {
      give_up();
    }
  }

  Communicator& host_;
  const NcclTransportOptions options_;
  const int exceptions_;
  std::optional<NcclLink> link_;  // None for a single rank.
  RegisteredMemory registered_{*this};
  MessageGroups groups_{Channel::halo};
  Ring<Progress> posted_at_;  ///< Of each group under way.
  bool rehearses_ = false;
  double progress_at_ = 0;
  double wait_began_ = 0;
  Rest rest_;
  const std::function<void(bool)> look_ = [this](bool first) { look_again(first); };
  std::int64_t halo_bytes_ = 0;
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
