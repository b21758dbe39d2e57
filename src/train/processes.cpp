#include "train/processes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "comm/batch.hpp"
#include "comm/clock.hpp"
#include "comm/mpi/transport.hpp"
#include "comm/processes/launcher.hpp"
#include "comm/rendezvous/launch_variables.hpp"
#include "comm/tcp/transport.hpp"
#include "core/copy_bytes.hpp"
#include "core/plural.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// Whether this process has begun to join others.
std::atomic<bool> has_joined = false;

/// Time for other survivors to end; LossGuard ends those that still compute after 0.4 s.
constexpr double kLeaveSeconds = 0.7;
/// How long a process that fails before it joins others waits for them, to tell them why.
constexpr double kTellSeconds = 2;

/// The number of processes in torchrun's variables; 1 if they are not set.
int processes_of_torchrun() {
  const auto variables = launch_variables();
  return variables ? variables->ranks : 1;
}

/// Throws Error(usage) if torchrun started several processes, but MPI knows of one.
void require_launched_by_mpi(int ranks) {
  if (ranks > 1) return;
  const int started = processes_of_torchrun();
  if (started == 1) return;
  throw_error(
      ErrorCode::usage,
      "--transport mpi: MPI knows of this process only, but WORLD_SIZE is {}, so each process "
      "would train the whole graph: use --transport tcp",
      started);
}

void set_options(const TransportOptions& transport, ProcessGroupOptions& options) {
  options.timeout_seconds = transport.timeout_seconds;
  options.silence = {transport.silence_loading, transport.silence_training,
                     transport.silence_saving};
}

}  // namespace

TransportKind choose_transport(const TransportOptions& transport) {
  if (transport.kind == TransportKind::mpi) return TransportKind::mpi;
  const auto launched = launched_by_mpi();
  const bool by_mpi = launched && mpi_built() && transport.kind != TransportKind::tcp;
  if (by_mpi && transport.kind != TransportKind::threads) return TransportKind::mpi;
  int started = launched ? launched->processes.value_or(1) : 1;
  if (transport.kind == TransportKind::threads) {
    started = std::max(started, processes_of_torchrun());
  } else {
    const auto variables = launch_variables();
    const int least = transport.kind == TransportKind::tcp ? 1 : 2;
    if (variables && variables->ranks >= least) return TransportKind::tcp;
    if (transport.kind == TransportKind::tcp) {
      throw_error(ErrorCode::usage,
                  "--transport tcp: the environment has no RANK, WORLD_SIZE, MASTER_ADDR and "
                  "MASTER_PORT; start the ranks with torchrun, or use --transport threads");
    }
  }
  if (started > 1) {
    const char* advice = "this build has no MPI transport; use torchrun, or start one process";
    if (transport.kind == TransportKind::threads)
      advice = "leave --transport out, or start only one process";
    throw_error(ErrorCode::usage,
                "{} processes were started, and each would train the whole graph by "
                "threads: {}",
                started, spell_options(advice));
  }
  return TransportKind::threads;
}

int rank_of_process() {
  const ProcessGroup* group = ProcessGroup::current();
  return group == nullptr ? 0 : group->rank();
}

TransportKind kind_of_processes() {
  const ProcessGroup* group = ProcessGroup::current();
  return group == nullptr ? TransportKind::threads : group->kind();
}

std::string warning_of_processes() {
  const ProcessGroup* group = ProcessGroup::current();
  return group == nullptr ? std::string() : group->warning();
}

void require_parts(int parts, int processes) {
  if (parts == processes) return;
  throw_error(ErrorCode::usage,
              "--parts {} with {}: each process is one rank, so leave --parts out or start {}",
              parts, counted(processes, "process"), parts);
}

std::optional<int> awaited_processes(const TransportOptions& transport) {
  if (choose_transport(transport) != TransportKind::tcp) return std::nullopt;
  return processes_of_torchrun();
}

Processes::Processes(const TransportOptions& transport)
    : transport_(transport), joins_by_(choose_transport(transport)) {
  if (transport.kind == TransportKind::nccl) load_cuda_kernels_at_once();  // MPI may start CUDA.
}

Processes::~Processes() = default;

void Processes::join(const std::function<void()>& check, const LogCallback& log) {
  has_joined = true;
  if (!joins_others()) return;
  const auto keep_watch = [this](std::shared_ptr<RankWatch> watch) {
    const std::lock_guard lock(mutex_);
    watch_ = std::move(watch);
  };
  if (joins_by_ == TransportKind::mpi) {
    MpiTransportOptions options;
    set_options(transport_, options);
    // With NCCL, its messages and MPI's could wait for each other on a device.
    const bool moves =
        transport_.device == DeviceKind::cuda && transport_.kind != TransportKind::nccl;
    if (moves) options.cuda_aware = transport_.cuda_aware_mpi;
    options.on_watch = keep_watch;
    group_ = std::make_unique<MpiGroup>(options);
    require_launched_by_mpi(group_->ranks());
  } else {
    TcpTransportOptions options;
    set_options(transport_, options);
    options.on_watch = keep_watch;
    options.launch = launch_variables().value_or(LaunchVariables{});
    options.check = check;
    options.log = log;
    group_ = std::make_unique<TcpGroup>(options);
  }
}

int Processes::rank() const { return group_ ? group_->rank() : 0; }
bool Processes::moves_device_memory() const { return group_ && group_->moves_device_memory(); }
int Processes::count() const { return group_ ? group_->ranks() : 1; }

std::shared_ptr<RankWatch> Processes::watch() const {
  const std::lock_guard lock(mutex_);
  return watch_;
}

template <class Question, class Answer>
Answer Processes::ask(Question question, Answer alone) const {
  const auto w = watch();
  return w ? std::invoke(question, *w) : alone;
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

void Processes::fail(ErrorCode code, const std::string& reason) noexcept {
  if (const auto w = watch()) w->fail({}, code, reason);
}

bool Processes::reports() { return ask(&RankWatch::must_report, true); }
ErrorCode Processes::failure_code() const {
  return ask(&RankWatch::failure_code, ErrorCode::peer_lost);
}
bool Processes::interrupted() const { return failure_code() == ErrorCode::interrupted; }
std::string Processes::failure_text() const { return ask(&RankWatch::failure_text, std::string()); }
bool Processes::lost() const { return ask(&RankWatch::lost, false); }
bool Processes::lowest_survivor() const { return ask(&RankWatch::lowest_survivor, true); }

void Processes::leave_together() {
  if (const auto w = watch()) w->leave_together(kLeaveSeconds);
}

void Processes::delay_exit() const {
  if (const auto w = watch()) w->delay_exit();
}

void Processes::leave() {
  if (group_) group_->leave();
}

void join_processes(const TransportOptions& transport, FunctionRef<void()> work) {
  const bool named = transport.kind == TransportKind::mpi || transport.kind == TransportKind::tcp;
  if (!named || ProcessGroup::current() != nullptr) {
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

void fail_waiting_processes(const Error& error) noexcept {
  const TransportOptions transport;
  try {
    if (has_joined || !awaited_processes(transport)) return;
    Processes processes(transport);
    processes.join([&error, until = monotonic_seconds() + kTellSeconds] {
      if (monotonic_seconds() > until) throw error;  // Whoever has come hears of it.
    });
    processes.fail(error.code(), error.what());
    processes.reports();  // Gives the others the time to hear of it.
  } catch (const std::exception&) {
    // Nobody waits, or nobody can be told; `error` is reported in any case.
  }
}

void end_mpi() noexcept { finalize_mpi(); }

}  // namespace heliograph
