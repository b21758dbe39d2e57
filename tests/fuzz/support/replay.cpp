// The main function of a fuzz target without libFuzzer.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "fuzz/support/attempt.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using Random =
    std::mt19937_64;  // Its numbers are the same everywhere, as a distribution's are not.

constexpr const char* kUsage =
    "usage: fuzz_TARGET [-runs=N] [-seed=N] PATH...\n"
    "Runs the target on every file in PATH, and then on N inputs that are made by changing these "
    "at\n"
    "random. A file good-* must be accepted, and a file bad-* refused. An input that ends the\n"
    "process is left in the file finding-TARGET in the current folder.\n";

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string changed(std::string input, const std::string& other, Random& random) {
  const auto below = [&](std::size_t end) { return end == 0 ? 0 : random() % end; };
  for (std::size_t left = 1 + below(4); left > 0; --left) {
    const std::size_t at = below(input.size()), count = 1 + below(16);
    static const std::string numbers[] = {
        "0",          "-1",   "1",   "4294967295",          "2147483647",
        "2147483648", "1e39", "nan", "9223372036854775807", "18446744073709551615"};
    switch (below(7)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(below(256));
        break;
      case 2:
        input.erase(at, count);
        break;
      case 3:
        input.insert(at, input, below(input.size()), count);
        break;
      case 4:
        input.replace(at, count, other, below(other.size()), count);
        break;
      case 5:
        input.replace(at, std::min(count, input.size() - at), count, below(2) == 0 ? '\0' : '\xff');
        break;
      default: {  // A number becomes another one.
        const std::size_t begin = std::min(input.find_first_of("0123456789", at), input.size());
        const std::size_t end =
            std::min(input.find_first_not_of("0123456789", begin), input.size());
        input.replace(begin, end - begin, numbers[below(std::size(numbers))]);
      }
    }
  }
  return input;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// No input of a corpus justifies an allocation of more than 256 MiB.
#ifdef __SANITIZE_ADDRESS__
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }
#else
void* operator new(std::size_t bytes) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 28;
  void* const memory = bytes > kMostBytes ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

int main(int argc, char** argv) {
  std::uint64_t runs = 0, seed = 1;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("-runs=")) {
      runs = std::stoull(word.substr(6));
    } else if (word.starts_with("-seed=")) {
      seed = std::stoull(word.substr(6));
    } else if (fs::is_directory(word)) {
      for (const auto& entry : fs::recursive_directory_iterator(word)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else if (fs::is_regular_file(word)) {
      files.emplace_back(word);
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  std::ranges::sort(files);
  if (files.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::vector<std::string> inputs;
  bool as_named = true;
  for (const fs::path& file : files) {
    inputs.push_back(read(file));
    // The name is printed first, so that it is the last line before the report of a finding.
    std::printf("%s: ", file.c_str());
    std::fflush(stdout);
    run(inputs.back());
    const std::string& refusal = heliograph::fuzz::last_refusal();
    const bool good = file.filename().string().starts_with("good-");
    const bool bad = file.filename().string().starts_with("bad-");
    const bool odd = refusal.empty() ? bad : good;
    as_named = as_named && !odd;
    std::printf("%s%s\n", refusal.empty() ? "accepted" : refusal.c_str(),
                odd ? "  <-- not as the file's name says" : "");
  }
  std::fflush(stdout);
  const fs::path kept = "finding-" + fs::path(argv[0]).filename().string();
  Random random(seed);
  for (std::uint64_t i = 0; i < runs; ++i) {
    const std::string& one = inputs[random() % inputs.size()];
    const std::string input = changed(one, inputs[random() % inputs.size()], random);
    std::ofstream(kept, std::ios::binary) << input;
    run(input);
  }
  if (runs > 0) fs::remove(kept);
  std::printf("%zu files, %llu changed inputs\n", files.size(),
              static_cast<unsigned long long>(runs));
  return as_named ? 0 : 1;
}
