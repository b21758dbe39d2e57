// A run directory: what --resume, --config, --out and eval read of it.

#include "train/run/run_directory.hpp"

#include <cstdint>

#include "cli/resume.hpp"
#include "cli/train_request.hpp"
#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"
#include "heliograph/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, size);
  if (!files.valid()) return -1;
  const std::string path = files.folder().string();
  fuzz::attempt([&] {
    RunDirectory::check(path, true);
    Model::load(path);
  });
  fuzz::attempt([&] { RunDirectory::check(path, false); });
  fuzz::attempt([&] {
    cli::TrainRequest request;
    const cli::ResumePoint point = cli::find_resume_point("resume", path);
    cli::apply_resumed(point, request, [] {});
  });
  return 0;
}
