// The file of --partitioner file:PATH. The file "options" has one digit for the number of parts and
// one for that of nodes.

#include <cstdint>

#include "fuzz/support/attempt.hpp"
#include "fuzz/support/input_files.hpp"
#include "heliograph/partition.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heliograph;
  const fuzz::InputFiles files(data, size);
  if (!files.valid() || files.options().size() < 2) return -1;
  fuzz::attempt([&] {
    const int parts = files.options()[0] - '0', nodes = files.options()[1] - '0';
    const Partition read = read_partition(files.first(), nodes, parts);
    const std::filesystem::path written = files.folder() / "written";
    write_partition(read, written);
    fuzz::require(read_partition(written, nodes, parts).owner == read.owner,
                  "a partition is the same once it has been written and read");
  });
  return 0;
}
