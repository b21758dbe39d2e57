// With HELIOGRAPH_TEST_MPI_INIT the program initialises and finalises MPI, as a program that embeds
// the library may.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>

namespace {

class CallersMpi : public ::testing::Environment {
 public:
  void SetUp() override {
    ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);  // The lowest level of thread support.
  }
  void TearDown() override {
    int finalised = 0;
    MPI_Finalized(&finalised);
    EXPECT_EQ(finalised, 0);
    EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS);
  }
};

[[maybe_unused]] const auto* const callers_mpi =
    std::getenv("HELIOGRAPH_TEST_MPI_INIT") != nullptr
        ? ::testing::AddGlobalTestEnvironment(new CallersMpi)
        : nullptr;

}  // namespace
