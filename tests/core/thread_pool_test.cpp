#include "core/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/thread.hpp"
#include "heliograph/error.hpp"
#include "support/allocations.hpp"

namespace heliograph {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t tasks : {0, 1, 2, 33, 257}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      pool.run(tasks, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, RangesCoverEveryItemOnceWhateverTheThreads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 7, 8, 9, 64}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      pool.for_ranges(count, 8, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin % 8, 0);
        EXPECT_LE(end - begin, 8);
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPool, AnExceptionOfATaskComesOutOfRunAndThePoolGoesOn) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run(20,
                        [](std::int64_t i) {
                          if (i == 7) throw std::runtime_error("seven");
                        }),
               std::runtime_error);
  std::atomic<int> runs = 0;
  pool.run(20, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 20);
}

/// Limits the address space to a few more stacks.
void leave_room_for_few_threads() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto used = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{used + 4 * Thread::kStackBytes, used + 4 * Thread::kStackBytes};
  setrlimit(RLIMIT_AS, &limit);
}

TEST(ThreadPoolDeathTest, ASystemOutOfThreadsIsAnErrorNotAWait) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers need the address space";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        alarm(20);  // Ends the test if the pool hangs.
        leave_room_for_few_threads();
        try {
          const ThreadPool pool(64);
        } catch (const Error& error) {
          std::_Exit(error.code() == ErrorCode::resource ? 0 : 1);
        }
        std::_Exit(2);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Thread, SharesTogetherAreAllCpusAndKeepToThemselves) {
  const int cores = allowed_cpus();
  for (const int shares : {1, cores, 3 * cores}) {
    std::vector<int> taken(CPU_SETSIZE, 0);
    for (int share = 0; share < shares; ++share) {
      Thread("share", [&] {
        ASSERT_TRUE(keep_to_share(share, shares));
        EXPECT_EQ(allowed_cpus(), std::max(1, cores / shares));
        cpu_set_t set;
        CPU_ZERO(&set);
        ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
          taken[static_cast<std::size_t>(cpu)] += CPU_ISSET(cpu, &set) ? 1 : 0;
        }
      }).join();
    }
    EXPECT_EQ(std::count_if(taken.begin(), taken.end(), [](int n) { return n > 0; }), cores);
    EXPECT_EQ(*std::max_element(taken.begin(), taken.end()), std::max(1, shares / cores));
  }
  EXPECT_EQ(allowed_cpus(), cores) << "the caller's own CPUs are as they were";
}

TEST(Thread, AllowedCpusAreThoseOfTheAffinityMask) {
  int seen = 0;
  Thread alone("one core", [&seen] {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof(mine), &mine);
    int first = 0;
    while (!CPU_ISSET(first, &mine)) ++first;
    CPU_ZERO(&mine);
    CPU_SET(first, &mine);
    sched_setaffinity(0, sizeof(mine), &mine);
    seen = allowed_cpus();
  });
  alone.join();
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace heliograph
