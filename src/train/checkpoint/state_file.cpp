#include "train/checkpoint/state_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

static_assert(std::endian::native == std::endian::little, "state files are little-endian");

constexpr std::array<char, 8> kStateMagic{'H', 'G', 'S', 'T', 'A', 'T', 'E', '1'};
constexpr std::size_t kSectionAlign = 8;
constexpr std::size_t kLongestName = 256;
constexpr const char* kEnd = "end";

std::size_t padding_of(std::size_t bytes) {
  return (kSectionAlign - bytes % kSectionAlign) % kSectionAlign;
}

/// The header of a section: sizes of name and payload, then the name, padded with zeros.
std::vector<std::byte> header_of(const std::string& name, std::size_t payload_bytes) {
  const std::array<std::uint64_t, 2> sizes{name.size(), payload_bytes};
  std::vector<std::byte> header(sizeof(sizes) + name.size() + padding_of(name.size()));
  std::memcpy(header.data(), sizes.data(), sizeof(sizes));
  std::memcpy(header.data() + sizeof(sizes), name.data(), name.size());
  return header;
}

std::uint64_t section_checksum(std::span<const std::byte> header,
                               std::span<const std::byte> payload) {
  return XXH64(payload.data(), payload.size(), xxh64(header));
}

/// Calls use(part) for consecutive parts of mapped `bytes`. Releases the pages of each part after
/// its use, so that a large file is never resident as a whole.
template <class Use>
void read_mapped(std::span<const std::byte> bytes, Use use) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kPart));
    use(part);
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
    ::madvise(reinterpret_cast<void*>(begin),
              reinterpret_cast<std::uintptr_t>(part.data() + part.size()) - begin, MADV_DONTNEED);
    bytes = bytes.subspan(part.size());
  }
}

}  // namespace

StateWriter::StateWriter(std::unique_ptr<FileSink> sink) : sink_(std::move(sink)) {
  sink_->write(std::as_bytes(std::span(kStateMagic)));
}

void StateWriter::section(const std::string& name, std::span<const std::byte> payload) {
  constexpr std::array<std::byte, kSectionAlign> zeros{};
  const std::vector<std::byte> header = header_of(name, payload.size());
  sink_->write(header);
  sink_->write(payload);
  sink_->write(std::span(zeros).first(padding_of(payload.size())));
  const std::uint64_t checksum = section_checksum(header, payload);
  sink_->write(std::as_bytes(std::span(&checksum, 1)));
}

FileRecord StateWriter::close() {
  section(kEnd, std::span<const std::byte>());
  sink_->close();
  return {sink_->size(), sink_->hash()};
}

StateFile::StateFile(std::filesystem::path path, const FileRecord& record)
    : path_(std::move(path)), file_(MappedFile::open(path_)) {
  const std::span<const std::byte> all = file_->bytes();
  std::span<const std::byte> rest = all;
  const auto check = [this](bool holds, const std::string& what) {
    if (!holds) throw_error(ErrorCode::bad_input, "{}: {}", path_.string(), what);
  };
  const auto is_zero = [](std::byte b) { return b == std::byte{}; };
  check(rest.size() >= kStateMagic.size(), "is cut off within its first field, magic");
  check(std::memcmp(rest.data(), kStateMagic.data(), kStateMagic.size()) == 0,
        "field magic is damaged: this is no state file of a version that this build reads");
  RunningHash whole(0);
  whole.add(rest.first(kStateMagic.size()));
  rest = rest.subspan(kStateMagic.size());
  std::string name = "magic";
  while (name != kEnd) {
    const std::string after = fmt::format("the header of the section after {}", name);
    std::array<std::uint64_t, 2> sizes{};
    check(rest.size() >= sizeof(sizes), fmt::format("is cut off within {}", after));
    std::memcpy(sizes.data(), rest.data(), sizeof(sizes));
    check(sizes[0] > 0 && sizes[0] <= kLongestName, fmt::format("{} is damaged", after));
    const std::size_t name_bytes = sizes[0];
    const std::size_t header_bytes = sizeof(sizes) + name_bytes + padding_of(name_bytes);
    check(rest.size() >= header_bytes, fmt::format("is cut off within {}", after));
    const auto header = rest.first(header_bytes);
    name.assign(reinterpret_cast<const char*>(header.data()) + sizeof(sizes), name_bytes);
    check(std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; }) &&
              std::all_of(header.begin() + static_cast<std::ptrdiff_t>(sizeof(sizes) + name_bytes),
                          header.end(), is_zero),
          fmt::format("{} is damaged", after));
    rest = rest.subspan(header_bytes);
    constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);
    // Compares with the remaining bytes first, because adding to a damaged size may overflow.
    const bool fits = sizes[1] <= rest.size() && sizes[1] + padding_of(sizes[1]) <= rest.size() &&
                      rest.size() - sizes[1] - padding_of(sizes[1]) >= checksum_bytes;
    check(fits, fmt::format("is cut off within field {}, or its size is damaged", name));
    const auto payload = rest.first(sizes[1]);
    const auto padding = rest.subspan(sizes[1], padding_of(sizes[1]));
    check(std::all_of(padding.begin(), padding.end(), is_zero),
          fmt::format("field {} is damaged: its padding is not zero", name));
    std::uint64_t checksum = 0;
    std::memcpy(&checksum, rest.data() + payload.size() + padding.size(), checksum_bytes);
    RunningHash section(xxh64(header));
    whole.add(header);
    read_mapped(payload, [&](std::span<const std::byte> part) {
      section.add(part);
      whole.add(part);
    });
    check(checksum == section.value(),
          fmt::format("field {} is damaged: it does not match its checksum", name));
    whole.add(rest.subspan(payload.size(), padding.size() + checksum_bytes));
    rest = rest.subspan(payload.size() + padding.size() + checksum_bytes);
    check(sections_.emplace(name, payload).second, fmt::format("holds field {} twice", name));
  }
  check(rest.empty(), fmt::format("has {} bytes behind its last field", rest.size()));
  check(all.size() == record.bytes,
        fmt::format("is {} bytes long; the manifest says {}", all.size(), record.bytes));
  check(whole.value() == record.xxh64,
        "does not match its checksum in the manifest: it belongs to another checkpoint");
}

std::span<const std::byte> StateFile::section(const std::string& name) const {
  const auto found = sections_.find(name);
  if (found == sections_.end()) refuse(name, "is missing");
  return found->second;
}

void StateFile::read_bytes(const std::string& name, std::span<std::byte> bytes) const {
  const auto stored = section(name);
  if (stored.size() != bytes.size()) {
    refuse(name, fmt::format("holds {} bytes instead of {}", stored.size(), bytes.size()));
  }
  std::byte* to = bytes.data();
  read_mapped(stored, [&](std::span<const std::byte> part) {
    to = std::copy(part.begin(), part.end(), to);
  });
}

std::size_t StateFile::count_items(const std::string& name, std::size_t item_bytes) const {
  const std::size_t bytes = section(name).size();
  if (bytes % item_bytes != 0) {
    refuse(name, fmt::format("holds {} bytes, which is no multiple of {}", bytes, item_bytes));
  }
  return bytes / item_bytes;
}

void StateFile::refuse(const std::string& name, const std::string& what) const {
  throw_error(ErrorCode::bad_input, "{}: field {} {}", path_.string(), name, what);
}

}  // namespace heliograph
