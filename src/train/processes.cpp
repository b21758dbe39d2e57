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
  if (transport.kind == TransportKind::automatic && mpi_built()) return true;
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

Processes::Processes(const TransportOptions& transport) {
  if (joins(transport)) group_ = std::make_unique<MpiGroup>(options_of(transport));
}

Processes::~Processes() = default;

int Processes::rank() const { return group_ ? group_->rank() : 0; }
int Processes::count() const { return group_ ? group_->ranks() : 1; }

bool Processes::wait_for_failure(double seconds) const {
  if (group_) return group_->watch().wait_for_failure(seconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return false;
}

void Processes::fail() noexcept {
  if (!group_) return;
  const RankFailure failure = current_failure();
  group_->watch().fail_by_exception({}, failure.code, failure.text);
}

void Processes::fail(const std::string& reason) noexcept {
  if (group_) group_->watch().fail({}, ErrorCode::interrupted, reason);
}

bool Processes::reports() { return !group_ || group_->watch().settle(); }

ErrorCode Processes::failure_code() const {
  return group_ ? group_->watch().failure_code() : ErrorCode::peer_lost;
}

std::string Processes::failure_text() const {
  return group_ ? group_->watch().failure_text() : std::string();
}

bool Processes::lost() const { return group_ && group_->watch().lost(); }

void Processes::leave_together() {
  if (group_) group_->watch().leave_together(kLeaveSeconds);
}

bool Processes::lost_while_joining() { return MpiGroup::lost_while_joining() != nullptr; }

void Processes::leave_together_unjoined() {
  MpiGroup::lost_while_joining()->leave_together(kLeaveSeconds);
}

void Processes::leave() {
  if (group_) group_->leave();
}

void join_processes(const TransportOptions& transport, FunctionRef<void()> work) {
  if (transport.kind != TransportKind::mpi || MpiGroup::current() != nullptr) {
    work();
    return;
  }
  Processes processes(transport);
  try {
    work();
  } catch (...) {
    processes.fail();
    throw;
  }
  processes.leave();
}

void end_mpi() noexcept { finalize_mpi(); }

}  // namespace heliograph
