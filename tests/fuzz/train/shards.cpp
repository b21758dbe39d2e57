// Shards in the folder: one epoch is trained on them, with their covers.

#include "heliograph/shards.hpp"

#include <cstdint>

#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, size);
  if (!files.valid()) return -1;
  fuzz::attempt([&] {
    TrainOptions options;
    options.epochs = 1;
    options.model.hidden = 4;
    options.exchange.rows = ExchangedRows::cover;
    options.transport.threads_per_rank = 1;
    options.memory_limit_bytes = std::int64_t{64} << 20;
    train_shards(files.folder(), options);
  });
  return 0;
}
