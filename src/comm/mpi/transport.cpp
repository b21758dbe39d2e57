#include "comm/mpi/transport.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/clock.hpp"
#include "comm/processes/communicator.hpp"
#include "comm/rendezvous/rendezvous.hpp"
#include "core/copy_bytes.hpp"
#include "core/thread.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

// Seconds between two polls of MPI. They are shorter while the rank waits for its messages than
// while it computes. With nothing under way MPI may still have to send small messages from its own
// buffers.
constexpr double kFirstMpiRest = 10e-6;
constexpr double kLongestMpiRestAwaited = 100e-6;
constexpr double kLongestMpiRest = 500e-6;
constexpr double kLongestMpiRestIdle = 5e-3;
constexpr int kTurnsBeforeRest = 4;

bool initialised_here = false;
bool any_rank_lost = false;

void require_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw TransportFailure(ErrorCode::resource, fmt::format("MPI cannot {}: {}", what, text.data()));
}

/// How long to sleep before the next poll: ever longer while nothing happens.
class Backoff {
 public:
  void reset() { turns_ = 0; }
  /// Seconds; 0: none.
  double next(double longest) {
    if (++turns_ <= kTurnsBeforeRest) return 0;
    rest_ = turns_ == kTurnsBeforeRest + 1 ? kFirstMpiRest : rest_ * 1.5;
    rest_ = std::min(rest_, longest);
    return rest_;
  }

 private:
  int turns_ = 0;
  double rest_ = 0;
};

/// The same, but if a rank was lost, the watch names it. `watch` may be null.
void require_mpi(int status, const char* what, const RankWatch* watch) {
  if (status != MPI_SUCCESS && watch != nullptr) {
    (void)watch->wait_for_failure(kLossSeconds);
    watch->throw_if_failed();
  }
  require_mpi(status, what);
}

/// Waits for `request`, which a call that returned `status` has begun, without keeping a core busy.
/// `watch` may be null. Throws Error(peer_lost) once a rank is lost, or after `seconds`.
void complete_request(int status, MPI_Request& request, const RankWatch* watch, double seconds,
                      const char* what) {
  require_mpi(status, what, watch);
  const FineTimer timer;
  Backoff backoff;
  const double deadline = monotonic_seconds() + seconds;
  for (int done = 0; done == 0;) {
    status = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (status == MPI_SUCCESS && done != 0) return;
    if (watch != nullptr) watch->throw_if_failed();
    require_mpi(status, what, watch);
    if (monotonic_seconds() > deadline) {
      throw_error(ErrorCode::peer_lost, "--transport mpi: timed out waiting for all ranks to {}",
                  what);
    }
    sched_yield();
    std::this_thread::sleep_for(std::chrono::duration<double>(backoff.next(kLongestMpiRest * 2)));
  }
}

/// Initialises MPI where nobody has, and checks that this thread may call it.
void take_up_mpi() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (finalised != 0) {
    throw_error(ErrorCode::usage, "--transport mpi: MPI has been finalised in this process");
  }
  if (initialised == 0) {
    // Where MPI waits by itself, as in its start, it lets others have the core.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int provided = 0;
    require_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "start");
    initialised_here = true;
    std::atexit([] { finalize_mpi(); });
  }
  int level = 0, is_main = 0;
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&is_main);
  if (level < MPI_THREAD_SERIALIZED && is_main == 0) {
    throw_error(ErrorCode::usage,
                "--transport mpi: MPI was initialised for one thread, and this is another");
  }
}

/// The pieces under way and their requests.
class Requests {
 public:
  Requests(const std::array<MPI_Comm, kChannels>& channels, int largest_tag)
      : channels_(channels), largest_tag_(largest_tag) {}

  bool empty() const { return requests_.empty(); }

  void start(const MessageQueues::Piece& piece) {
    const MPI_Comm channel = channels_[static_cast<std::size_t>(piece.end.channel)];
    const int count = static_cast<int>(piece.bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (piece.end.sending) {
      require_mpi(MPI_Isend(piece.data, count, MPI_BYTE, piece.end.peer,
                            tag_of_size(piece.message_bytes, largest_tag_), channel, &request),
                  "send");
    } else {
      require_mpi(
          MPI_Irecv(piece.data, count, MPI_BYTE, piece.end.peer, MPI_ANY_TAG, channel, &request),
          "receive");
    }
    requests_.push_back(request);
    pieces_.push_back(piece);
    done_.resize(requests_.size());
    statuses_.resize(requests_.size());
  }

  /// Finishes the pieces that are done. True if any is.
  bool advance(ProcessCommunicator& comm) {
    int count = 0;
    const int status = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                    done_.data(), statuses_.data());
    if (status != MPI_SUCCESS && status != MPI_ERR_IN_STATUS) require_mpi(status, "move messages");
    if (count == MPI_UNDEFINED || count == 0) return false;
    const auto finished = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < finished; ++i) {
      const auto at = static_cast<std::size_t>(done_[i]);
      const int error = status == MPI_SUCCESS ? MPI_SUCCESS : statuses_[i].MPI_ERROR;
      if (!take(comm, pieces_[at], statuses_[i], error)) return true;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      pieces_[kept++] = pieces_[i];
    }
    requests_.resize(kept);
    pieces_.resize(kept);
    return true;
  }

 private:
  /// False if the sizes of sender and receiver disagree.
  bool take(ProcessCommunicator& comm, const MessageQueues::Piece& piece, const MPI_Status& status,
            int error) const {
    int error_class = MPI_SUCCESS;
    if (error != MPI_SUCCESS) MPI_Error_class(error, &error_class);
    if (piece.end.sending || error_class != MPI_ERR_TRUNCATE) require_mpi(error, "move a message");
    if (!piece.end.sending) {
      int received = 0;
      MPI_Get_count(&status, MPI_BYTE, &received);
      const bool agrees = error == MPI_SUCCESS &&
                          static_cast<std::size_t>(received) == piece.bytes &&
                          status.MPI_TAG == tag_of_size(piece.message_bytes, largest_tag_);
      if (!agrees) {
        comm.refuse(piece, size_of_tag(status.MPI_TAG, largest_tag_));
        return false;
      }
    }
    comm.finish(piece);
    return true;
  }

  const std::array<MPI_Comm, kChannels>& channels_;
  const int largest_tag_;
  std::vector<MPI_Request> requests_;
  std::vector<MessageQueues::Piece> pieces_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

void move_messages(ProcessCommunicator& comm, Requests& requests, MPI_Comm control) {
  const FineTimer timer;
  Backoff backoff;
  while (comm.begin_turn()) {
    bool moved = false;
    try {
      while (const auto piece = comm.start()) {
        requests.start(*piece);
        moved = true;
      }
      if (requests.empty()) {
        int none = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control, &none, MPI_STATUS_IGNORE);
      } else {
        moved |= requests.advance(comm);
      }
    } catch (...) {
      comm.end_turn();
      throw;
    }
    comm.end_turn();
    if (moved) backoff.reset();
    double longest = comm.waited_for() ? kLongestMpiRestAwaited : kLongestMpiRest;
    if (requests.empty()) longest = kLongestMpiRestIdle;
    const double seconds = backoff.next(longest);
    if (seconds == 0) {
      sched_yield();
    } else {
      comm.rest(seconds);
    }
  }
}

}  // namespace

struct MpiGroup::State {
  MpiTransportOptions options;
  int largest_tag = 32767;
  Introduction introduction;
  std::vector<Introduction> introductions;
  std::uint16_t port = 0;
  std::vector<std::uint16_t> ports;
  MPI_Comm control = MPI_COMM_NULL;
  std::array<MPI_Comm, kChannels> channels{};
  bool moves_device_memory = false;
};

bool mpi_built() noexcept { return true; }

MpiGroup::MpiGroup(const MpiTransportOptions& options) : state_(std::make_unique<State>()) {
  if (current() != nullptr) {
    throw_error(ErrorCode::usage, "--transport mpi: this process is in a run already");
  }
  if (any_rank_lost) {
    throw_error(ErrorCode::peer_lost,
                "--transport mpi: an earlier run of this process has lost a rank");
  }
  if (!(options.timeout_seconds > 0) || options.piece_bytes == 0 ||
      options.piece_bytes > (std::size_t{1} << 30)) {
    throw_error(ErrorCode::usage,
                "--transport mpi: the timeout must be above 0 and pieces from 1 byte to 1 GiB");
  }
  take_up_mpi();
  State& s = *state_;
  s.options = options;
  try {
    join();
  } catch (...) {
    // MPI may still write to what it was given, and is not called any more.
    any_rank_lost = true;
    watch_.reset();
    (void)state_.release();
    throw;
  }
  become_current();
}

void MpiGroup::join() {
  State& s = *state_;
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  watch_ = std::make_shared<RankWatch>(rank, ranks, s.options.silence);

  MPI_Request request = MPI_REQUEST_NULL;
  const double seconds = s.options.timeout_seconds;
  complete_request(MPI_Comm_idup(MPI_COMM_WORLD, &s.control, &request), request, nullptr, seconds,
                   "make a communicator");
  MPI_Comm_set_errhandler(s.control, MPI_ERRORS_RETURN);

  s.introduction = introduce_process();
  const Introduction& mine = s.introduction;
  s.introductions.resize(static_cast<std::size_t>(ranks));
  complete_request(MPI_Iallgather(&mine, sizeof(mine), MPI_BYTE, s.introductions.data(),
                                  sizeof(mine), MPI_BYTE, s.control, &request),
                   request, nullptr, seconds, "exchange introductions");
  Rendezvous rendezvous(rank, s.introductions);
  s.port = rendezvous.port();
  s.ports.resize(s.introductions.size());
  complete_request(MPI_Iallgather(&s.port, 1, MPI_UINT16_T, s.ports.data(), 1, MPI_UINT16_T,
                                  s.control, &request),
                   request, nullptr, seconds, "exchange ports");
  for (std::size_t r = 0; r < s.ports.size(); ++r) s.introductions[r].port = s.ports[r];
  place_ = find_place(rank, s.introductions);
  watch_->start(std::move(rendezvous.connect(s.introductions, 1, s.options.silence.loading)[0]),
                s.introductions);
  if (s.options.on_watch) s.options.on_watch(watch_);

  for (MPI_Comm& channel : s.channels) {
    complete_request(MPI_Comm_idup(s.control, &channel, &request), request, watch_.get(), seconds,
                     "make a communicator");
    MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN);
  }
  void* largest = nullptr;
  int known = 0;
  MPI_Comm_get_attr(s.control, MPI_TAG_UB, &largest, &known);
  if (known != 0) s.largest_tag = *static_cast<int*>(largest);

  s.moves_device_memory = s.options.cuda_aware != CudaAwareMpi::off && mpi_is_cuda_aware();
  if (s.options.cuda_aware == CudaAwareMpi::on && !s.moves_device_memory) {
    throw_error(ErrorCode::usage,
                "--cuda-aware-mpi on: this MPI library does not say that it is CUDA-aware; leave "
                "the option out, and messages are staged on the host");
  }
}

MpiGroup::~MpiGroup() {
  if (watch_ && watch_->failed()) any_rank_lost = true;
}

bool MpiGroup::moves_device_memory() const noexcept { return state_->moves_device_memory; }

void MpiGroup::run(const std::function<void(Communicator&)>& body) {
  State& s = *state_;
  watch_->throw_if_failed();
  ProcessCommunicator comm(rank(), ranks(), s.options.timeout_seconds, s.options.piece_bytes,
                           *watch_);
  // What MPI maps into other processes cannot come from a device's pool.
  const std::unique_ptr<MemorySource> memory =
      s.moves_device_memory ? make_cuda_message_memory() : nullptr;
  comm.set_halo_memory(memory.get());
  if (memory) select_cuda_device(rank_on_host());
  Requests requests(s.channels, s.largest_tag);
  run_process_rank(comm, *watch_, body, [&] { move_messages(comm, requests, s.control); });
  // What this rank has sent may still need its help to arrive.
  MPI_Request request = MPI_REQUEST_NULL;
  complete_request(MPI_Ibarrier(s.control, &request), request, watch_.get(),
                   s.options.timeout_seconds, "end the run");
}

void MpiGroup::leave() {
  State& s = *state_;
  watch_->say_goodbye();
  for (MPI_Comm& channel : s.channels) MPI_Comm_free(&channel);
  MPI_Comm_free(&s.control);
}

void finalize_mpi() noexcept {
  if (!initialised_here || any_rank_lost) return;
  ProcessGroup* const group = ProcessGroup::current();
  if (group != nullptr && group->watch().failed()) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Finalize();
}

}  // namespace heliograph
