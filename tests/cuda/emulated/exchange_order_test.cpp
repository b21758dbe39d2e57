// Devices order halo messages and kernels themselves: no host waits for an exchange, and the waits
// that are left end where a message does not come.

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "comm/collectives.hpp"
#include "core/buffer.hpp"
#include "core/cuda/cuda_device.hpp"
#include "cuda/emulated/nccl_run.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

namespace heliograph::test {
namespace {

constexpr std::size_t kBytes = 1000;

/// One end of an exchange of kBytes with the other of two ranks.
struct End {
  explicit End(Communicator& c) : comm(c), device(c.rank(), 1, c.size()) {
    // What the first uploads allocate must not meet a message.
    for (int i = 0; i < 2; ++i) device.upload(out.data(), &comm, 1);
    device.finish();
    barrier(comm, Channel::weights);
  }

  /// Fills what it sends, exchanges, and overwrites what it has sent, without a wait.
  void exchange() {
    const std::vector<std::byte> mine(kBytes, value_of(comm.rank()));
    device.upload(out.data(), mine.data(), kBytes);
    const SendMessage send{1 - comm.rank(), out.data(), kBytes, true};
    const RecvMessage receive{1 - comm.rank(), in.data(), kBytes, true};
    ticket = comm.post(Channel::halo, {&send, 1}, {&receive, 1});
    comm.flush_after(device);
    comm.wait_on(device, ticket);
    device.queue()->clear(out.data(), kBytes);
  }
  static std::byte value_of(int rank) { return std::byte{static_cast<unsigned char>(7 + rank)}; }

  Communicator& comm;
  cuda::CudaDevice device;
  MemoryAccount account{device.memory()};
  Buffer out{kBytes, MemoryUse::halo, &account};
  Buffer in{kBytes, MemoryUse::halo, &account};
  Ticket ticket;
};

class ExchangeOrder : public NcclTest {
 protected:
  const Dataset data_ = make_small_dataset(80, 12, 4, 5);
};

TEST_F(ExchangeOrder, NoHostWaitsForTheOtherRank) {
  run_nccl_ranks(2, {}, [](Communicator& comm) {
    ASSERT_TRUE(comm.orders_on_device(Channel::halo));
    End end(comm);
    std::byte go{};
    const SendMessage send{1, &go, 1};
    const RecvMessage receive{0, &go, 1};
    // Rank 1 begins when rank 0 has asked for all of its part.
    if (comm.rank() == 1) comm.wait(comm.post(Channel::weights, {}, {&receive, 1}));
    end.exchange();
    if (comm.rank() == 0) comm.wait(comm.post(Channel::weights, {&send, 1}, {}));
    std::vector<std::byte> got(kBytes);
    end.device.download(got.data(), end.in.data(), kBytes);
    EXPECT_EQ(got, std::vector<std::byte>(kBytes, End::value_of(1 - comm.rank())));
    EXPECT_TRUE(comm.done(end.ticket));
  });
}

// A message of weights is done while one of the halo is in flight; one of host memory goes by host.
TEST_F(ExchangeOrder, WeightsDoNotWaitForHalos) {
  NcclTransportOptions options;
  options.moves_weights = true;
  run_nccl_ranks(2, options, [](Communicator& comm) {
    End end(comm);
    EXPECT_TRUE(comm.orders_on_device(Channel::weights));
    EXPECT_TRUE(comm.moves_device_memory(Channel::weights));
    const auto post = [&](Channel channel) {
      const SendMessage send{1 - comm.rank(), end.out.data(), kBytes, true};
      const RecvMessage receive{1 - comm.rank(), end.in.data(), kBytes, true};
      const Ticket ticket = comm.post(channel, {&send, 1}, {&receive, 1});
      comm.flush_after(end.device);
      return ticket;
    };
    Ticket halo;
    if (comm.rank() == 0) halo = post(Channel::halo);
    comm.wait(post(Channel::weights));
    EXPECT_EQ(comm.done(halo), comm.rank() == 1);  // Rank 1 has not posted its end yet.
    barrier(comm, Channel::weights);
    if (comm.rank() == 1) halo = post(Channel::halo);
    comm.wait(halo);
    EXPECT_EQ(comm.bytes_sent(Channel::halo), static_cast<std::int64_t>(kBytes));
    // Two barriers of a byte each.
    EXPECT_EQ(comm.bytes_sent(Channel::weights), static_cast<std::int64_t>(kBytes) + 2);
  });
}

TEST_F(ExchangeOrder, WeightsThatDoNotComeAreNamed) {
  NcclTransportOptions options;
  options.moves_weights = true;
  options.timeout_seconds = 0.3;
  const Caught caught = error_of([&] {
    run_nccl_ranks(2, options, [](Communicator& comm) {
      End end(comm);
      while (comm.rank() == 1) comm.throw_if_failed();  // The rank that does not come.
      comm.set_progress({4, -1});
      const RecvMessage receive{1, end.in.data(), kBytes, true};
      const Ticket ticket = comm.post(Channel::weights, {}, {&receive, 1});
      comm.flush_after(end.device);
      comm.wait_on(end.device, ticket);
      end.device.finish();
      FAIL() << "the wait has ended";
    });
  });
  EXPECT_EQ(caught.code, ErrorCode::peer_lost);
  EXPECT_EQ(caught.text,
            "rank 0, epoch 4: waited 0.3 s without progress for bytes from rank 1 on the weights "
            "channel");
}

/// A wait for a device whose work waits for a message.
struct WaitCase {
  std::string name;
  std::function<void(End&)> wait;
};
void PrintTo(const WaitCase& c, std::ostream* out) { *out << c.name; }

class ExchangeWaits : public NcclTest, public ::testing::WithParamInterface<WaitCase> {};

TEST_P(ExchangeWaits, EndInTimeWithTheNameOfWhatDoesNotCome) {
  NcclTransportOptions limits;
  limits.timeout_seconds = 0.3;
  const Caught caught = error_of([&] {
    run_nccl_ranks(2, limits, [&](Communicator& comm) {
      End end(comm);
      comm.set_progress({0, 1});
      end.exchange();
      end.device.finish();
      while (comm.rank() == 1) comm.throw_if_failed();  // The rank that does not come.
      comm.set_progress({1, 1});
      end.exchange();
      comm.set_progress({1, 2});  // The rank is ahead of its device.
      GetParam().wait(end);
      FAIL() << "the wait has ended";
    });
  });
  EXPECT_EQ(caught.code, ErrorCode::peer_lost);
  EXPECT_EQ(caught.text,
            "rank 0, epoch 1, layer 1: waited 0.3 s without progress for bytes from rank 1 on the "
            "halo channel, or for the other message of its group of 2");
}

INSTANTIATE_TEST_SUITE_P(
    Of, ExchangeWaits,
    ::testing::Values(WaitCase{"Finish", [](End& end) { end.device.finish(); }},
                      WaitCase{"Download",
                               [](End& end) {
                                 std::byte byte{};
                                 end.device.download(&byte, end.in.data(), 1);
                               }},
                      WaitCase{"Uploads",
                               [](End& end) {
                                 const std::byte byte{};
                                 for (int i = 0; i < 3; ++i) {
                                   end.device.upload(end.out.data(), &byte, 1);
                                 }
                               }},
                      WaitCase{"Host", [](End& end) { end.comm.wait(end.ticket); }},
                      WaitCase{"OneGroupTooMany",
                               [](End& end) {
                                 for (int i = 0; i < 100; ++i) end.exchange();
                               }}),
    [](const auto& tested) { return tested.param.name; });

/// How often a rank waits for its device in an epoch.
double waits_of_an_epoch(const Dataset& data, TrainOptions o) {
  std::vector<std::int64_t> waits;
  for (const int epochs : {4, 6}) {
    o.epochs = epochs;
    const std::int64_t before = cuda_emulation::host_waits();
    train(data, o);
    waits.push_back(cuda_emulation::host_waits() - before);
  }
  return static_cast<double>(waits[1] - waits[0]) / 2 / o.partition.parts;
}

TEST_F(ExchangeOrder, EpochsWaitForTheLossAndTheirEndOnly) {
  for (const int staleness : {0, 2}) {
    TrainOptions o = small_options(2, 1);
    o.model.layers = 6;
    o.transport.device = DeviceKind::cuda;
    o.transport.cuda_graphs = staleness == 0 ? CudaGraphs::off : CudaGraphs::on;
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
    o.exchange.staleness = staleness;
    o.eval_every = 100;
    o.transport.kind = TransportKind::nccl;
    // The loss and the squares of the gradients are copied to the host, which takes one wait each,
    // or two if messages may be in flight; one more ends the epoch. There are 10 exchanges.
    EXPECT_LE(waits_of_an_epoch(data_, o), 5) << "S = " << staleness;
    o.transport.kind = TransportKind::threads;
    EXPECT_GT(waits_of_an_epoch(data_, o), 10) << "S = " << staleness;
  }
}

TEST_F(ExchangeOrder, RunsHaveTheBitsOfThreadsInBothOrdersOfGrids) {
  using cuda_emulation::GridOrder;
  TrainOptions o = small_options(3, 4);
  o.model.layers = 3;
  o.transport.device = DeviceKind::cuda;
  o.exchange.bits_forward = Bits::one;
  o.exchange.bits_backward = Bits::four;
  for (const int staleness : {0, 2}) {
    o.exchange.staleness = staleness;
    o.transport.kind = TransportKind::threads;
    const TrainResult threads = train(data_, o);
    o.transport.kind = TransportKind::nccl;
    for (const GridOrder order : {GridOrder::forwards, GridOrder::backwards}) {
      cuda_emulation::set_order(order);
      const TrainResult nccl = train(data_, o);
      for (std::size_t e = 0; e < threads.epochs.size(); ++e) {
        EXPECT_EQ(nccl.epochs[e].loss, threads.epochs[e].loss) << staleness << ", epoch " << e;
      }
      EXPECT_EQ(nccl.predictions, threads.predictions) << staleness;
    }
    cuda_emulation::set_order(GridOrder::alternating);
  }
}

// The rank goes on after such a row, and the epoch ends with the first one of all ranks.
TEST_F(ExchangeOrder, ARowThatCannotBeEncodedIsNamedInItsEpoch) {
  for (const int staleness : {0, 1}) {
    TrainOptions o = small_options(2, 6);
    o.model.layers = 3;
    o.model.norm = NormLayer::none;
    o.optimizer.lr = 1e30F;
    o.eval_every = 0;
    o.transport.device = DeviceKind::cuda;
    o.transport.kind = TransportKind::nccl;
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::four;
    o.exchange.staleness = staleness;
    const Caught caught = error_of([&] { train(data_, o); });
    EXPECT_EQ(caught.code, ErrorCode::numeric);
    EXPECT_EQ(
        caught.text,
        "rank 0, epoch 1, layer 2: rows of layers.2.forward, node 0: the row holds NaN or "
        "Inf, or spans more than the wire format holds: lower lr, give clip-norm, or use more "
        "bits");
  }
}

}  // namespace
}  // namespace heliograph::test
