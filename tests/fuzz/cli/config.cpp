// A file for --config: its options are applied and checked, and are the same once they have been
// written as JSON and read.

#include <cstdint>
#include <fstream>

#include "cli/train_request.hpp"
#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"
#include "train/options/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, 0);
  const std::filesystem::path path = files.folder() / "config.json";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  fuzz::attempt([&] {
    const cli::RunConfig config = cli::read_config(path.string());
    cli::TrainRequest request;
    const auto fields = cli::request_fields();
    apply_json(std::span<const OptionField<cli::TrainRequest>>(fields), config.options,
               "the config", request);
    const auto written = options_to_json(request.train);
    TrainOptions read;
    options_from_json(written, "the options", read);
    fuzz::require(options_to_json(read) == written,
                  "options are the same once they have been written and read");
    validate(request.train);
    cli::warnings(request, [](const std::string&) { return true; });
  });
  return 0;
}
