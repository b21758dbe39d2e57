// Every form of data set that load_dataset reads. The path is the folder if it has a form, else the
// first file. Each letter of the file "options" is an option.

#include <cstdint>
#include <string_view>

#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"
#include "graph/io/forms.hpp"
#include "heliograph/io.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, size);
  if (!files.valid()) return -1;
  const auto has = [&](char c) { return files.options().find(c) != std::string::npos; };
  ImportOptions options;
  if (has('0')) options.index_base = 0;
  if (has('1')) options.index_base = 1;
  options.keep_direction = has('d');
  options.ignore_weights = has('i');
  options.regression = has('r');
  options.requires_labels = !has('l');
  options.requires_splits = !has('s');
  if (has('y')) options.target = "year";
  options.log = [](LogLevel, std::string_view text) {
    fuzz::require(!text.empty(), "a message without text");
  };
  fuzz::attempt([&] {
    const bool whole = form_of(files.folder()) != nullptr || files.first().empty();
    const Dataset dataset = load_dataset(whole ? files.folder() : files.first(), options);
    if (!options.requires_labels) return;  // Saving needs labels.
    const std::filesystem::path saved = files.folder() / "saved";
    save_native(dataset, saved);
    ImportOptions again;
    again.regression = dataset.labels.task == Task::regression;
    fuzz::require(dataset_hash(load_dataset(saved, again)) == dataset_hash(dataset),
                  "a data set is the same once it has been saved and loaded");
  });
  return 0;
}
