// A checkpoint in the folder "checkpoint": it is verified, and resumed for one epoch on the data
// set in the folder "data", with the options that its manifest holds.

#include "heliograph/checkpoint.hpp"

#include <algorithm>
#include <cstdint>

#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"
#include "heliograph/io.hpp"
#include "heliograph/train.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, size);
  if (!files.valid()) return -1;
  fuzz::attempt([&] {
    const std::filesystem::path path = files.folder() / "checkpoint";
    const CheckpointInfo info = verify_checkpoint(path);
    if (info.epochs < 0 || info.epochs > 1000) return;
    TrainOptions options = info.options;
    if (options.partition.parts > 3) return;
    options.epochs = std::max(info.epochs, 1);
    options.checkpoint = CheckpointOptions();
    options.checkpoint.resume = path;
    options.init_from.clear();
    options.transport = TransportOptions();
    options.transport.threads_per_rank = 1;
    options.memory_limit_bytes = std::int64_t{64} << 20;
    train(load_dataset(files.folder() / "data"), options);
  });
  return 0;
}
