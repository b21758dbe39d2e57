// The seconds that an epoch reports as all-reduce are not those of the backward pass before it.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "comm/collectives.hpp"
#include "core/cuda/runtime.hpp"
#include "cuda/emulated/nccl_run.hpp"
#include "layers/parameters.hpp"
#include "runtime.hpp"
#include "support/runs.hpp"
#include "train/launch.hpp"
#include "train/weight_update.hpp"

namespace heliograph::test {
namespace {

constexpr std::chrono::duration<double> kBackward{1};

struct Setting {
  TransportKind kind;
  int ranks;
  float clip_norm;
};

void PrintTo(const Setting& s, std::ostream* out) {
  *out << (s.kind == TransportKind::nccl ? "nccl" : "threads") << s.ranks << "Clip" << s.clip_norm;
}

class UpdateSeconds : public NcclTest, public ::testing::WithParamInterface<Setting> {};

TEST_P(UpdateSeconds, DoNotCountBackward) {
  TrainOptions o = small_options(GetParam().ranks, 2);
  o.optimizer.clip_norm = GetParam().clip_norm;
  o.transport.kind = GetParam().kind;
  o.transport.device = DeviceKind::cuda;
  launch_ranks(GetParam().ranks, {o.transport, true}, nullptr, [&](Communicator& comm) {
    const auto kernels = make_cuda_kernels(comm.rank(), 1, {.ranks = comm.size()});
    Device& device = kernels->device();
    MemoryAccount account(device.memory());
    Parameters parameters;
    parameters.declare("weight", 30, 40, ParameterKind::weight);
    parameters.allocate(false, &account);
    parameters.initialise(1, *kernels);
    PhaseClock times;
    WeightUpdate update(o, parameters, comm, *kernels, times, nullptr, &account);
    const auto step = [&](int epoch) {
      update.begin(0.01, {epoch});
      update.complete(0, parameters.flat_size());
      update.release();
      update.finish();
      device.finish();
    };
    comm.rehearse(true);
    step(0);
    comm.rehearse(false);
    barrier(comm, Channel::evaluation);
    times = {};
    const auto began = std::chrono::steady_clock::now();
    if (comm.rank() == 0) {
      const std::lock_guard lock(cuda_emulation::runtime().lock);
      cuda_emulation::enqueue(*cuda_emulation::find_stream(device.queue()->stream()),
                              cuda_emulation::Access::none, [] {
                                std::this_thread::sleep_for(kBackward);
                                return std::string();
                              });
    }
    step(1);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (comm.rank() == 0) {
      EXPECT_LE(times.allreduce, (took - kBackward).count()) << "backward counts beside it";
    }
    barrier(comm, Channel::evaluation);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, UpdateSeconds,
                         ::testing::Values(Setting{TransportKind::threads, 1, 1},
                                           Setting{TransportKind::threads, 2, 0},
                                           Setting{TransportKind::nccl, 2, 1}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace heliograph::test
