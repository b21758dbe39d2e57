#include "train/processes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "comm/batch.hpp"
#include "comm/launcher.hpp"
#include "comm/mpi_transport.hpp"

namespace heliograph {
namespace {

/// For survivors that still compute: LossGuard ends their work after 0.4 s.
constexpr double kLeaveSeconds = 0.7;

bool joins(const TransportOptions& transport) {
  if (transport.kind == TransportKind::mpi) return true;
  const auto launched = launched_by_mpi();
  if (!launched) return false;
  if (transport.kind != TransportKind::threads && mpi_built()) return true;
  if (launched->processes.value_or(1) > 1) {
    throw Error(ErrorCode::usage,
                fmt::format("{} processes were started, and each would train the whole graph by "
                            "threads: {}",
                            *launched->processes,
                            mpi_built() ? "leave --transport out, or start one"
                                        : "this build has no MPI transport, so start one"));
  }
  return false;
}

MpiTransportOptions options_of(const TransportOptions& transport) {
  MpiTransportOptions options;
  options.timeout_seconds = transport.timeout_seconds;
  options.silence = {transport.silence_loading, transport.silence_training,
                     transport.silence_saving};
  return options;
}

}  // namespace

int launched_rank() {
  const auto launched = launched_by_mpi();
  return launched ? launched->rank : 0;
}

void require_parts(int parts, int processes) {
  if (parts == processes) return;
  throw Error(ErrorCode::usage,
              fmt::format("--parts {} with {} MPI process{}: each process is one rank, so leave "
                          "--parts out or start {}",
                          parts, processes, processes == 1 ? "" : "es", parts));
}

Processes::Processes(const TransportOptions& transport)
    : transport_(transport), joins_(joins(transport)) {}

Processes::~Processes() = default;

void Processes::join() {
  if (!joins_) return;
  MpiTransportOptions options = options_of(transport_);
  options.on_watch = [this](std::shared_ptr<RankWatch> watch) {
    const std::lock_guard lock(mutex_);
    watch_ = std::move(watch);
  };
  group_ = std::make_unique<MpiGroup>(options);
}

int Processes::rank() const { return group_ ? group_->rank() : 0; }
int Processes::count() const { return group_ ? group_->ranks() : 1; }

std::shared_ptr<RankWatch> Processes::watch() const {
  const std::lock_guard lock(mutex_);
  return watch_;
}

bool Processes::wait_for_failure(double seconds) const {
  if (const auto w = watch()) return w->wait_for_failure(seconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return false;
}

void Processes::fail() noexcept {
  const auto w = watch();
  if (!w) return;
  const RankFailure failure = current_failure();
  w->fail_by_exception({}, failure.code, failure.text);
}

void Processes::fail(const std::string& reason) noexcept {
  if (const auto w = watch()) w->fail({}, ErrorCode::interrupted, reason);
}

bool Processes::reports() {
  const auto w = watch();
  return !w || w->settle();
}

ErrorCode Processes::failure_code() const {
  const auto w = watch();
  return w ? w->failure_code() : ErrorCode::peer_lost;
}

std::string Processes::failure_text() const {
  const auto w = watch();
  return w ? w->failure_text() : std::string();
}

bool Processes::lost() const {
  const auto w = watch();
  return w && w->lost();
}

void Processes::leave_together() {
  if (const auto w = watch()) w->leave_together(kLeaveSeconds);
}

void Processes::hold_up_the_end() const {
  if (const auto w = watch()) w->hold_up_the_end();
}

void Processes::leave() {
  if (group_) group_->leave();
}

void join_processes(const TransportOptions& transport, FunctionRef<void()> work) {
  if (transport.kind != TransportKind::mpi || ProcessGroup::current() != nullptr) {
    work();
    return;
  }
  Processes processes(transport);
  try {
    processes.join();
    work();
  } catch (...) {
    processes.fail();
    throw;
  }
  processes.leave();
}

void end_mpi() noexcept { finalize_mpi(); }

}  // namespace heliograph
