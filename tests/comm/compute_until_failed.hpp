#pragma once

#include "comm/communicator.hpp"
#include "comm/sleep_for.hpp"

namespace heliograph::test {

/// Keeps a rank busy without waiting for anybody until a failure ends it.
[[noreturn]] inline void compute_until_failed(Communicator& comm) {
  while (true) {
    comm.throw_if_failed();
    sleep_for(0.001);
  }
}

}  // namespace heliograph::test
