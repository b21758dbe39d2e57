#include "graph/io/line_reader.hpp"

#include <zlib.h>

#include <cstring>
#include <new>

#include "graph/io/files.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kFirstBuffer = std::size_t{1} << 18;
constexpr std::size_t kLongestLine = std::size_t{1} << 26;

}  // namespace

void LineReader::Close::operator()(gzFile_s* file) const noexcept { gzclose_r(file); }

LineReader::LineReader(const std::filesystem::path& path)
    : name_(path.string()), buffer_(kFirstBuffer) {
  auto [descriptor, bytes] = open_regular(path);
  file_.reset(gzdopen(descriptor.get(), "rb"));
  if (file_ == nullptr) throw std::bad_alloc();
  descriptor.release();  // The file closes it.
  gzbuffer(file_.get(), static_cast<unsigned>(kFirstBuffer));
  refill();
  const std::int64_t factor = gzdirect(file_.get()) != 0 ? 1 : kMostInflation;
  most_bytes_ = static_cast<std::int64_t>(bytes) * factor;
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (std::string_view(buffer_.data(), end_).starts_with(kMark)) begin_ = kMark.size();
}

void LineReader::refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    if (end_ >= kLongestLine) {
      throw_error(ErrorCode::bad_input, "{}, line {}: has more than {} bytes", name_, number_ + 1,
                  kLongestLine);
    }
    buffer_.resize(2 * end_);
  }
  const auto room = static_cast<unsigned>(buffer_.size() - end_);
  const int got = gzread(file_.get(), buffer_.data() + end_, room);
  int code = Z_OK;
  const char* const what = gzerror(file_.get(), &code);
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    throw_error(ErrorCode::bad_input, "{} is damaged: {}", name_,
                code == Z_BUF_ERROR ? "it ends too early" : what);
  }
  at_end_ = got == 0;
  end_ += static_cast<std::size_t>(got);
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  for (;;) {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    std::size_t end = rest.find('\n', searched);
    if (end == std::string_view::npos && !at_end_) {
      searched = rest.size();
      refill();
      continue;
    }
    if (rest.empty()) return false;
    line = rest.substr(0, end);
    begin_ += end == std::string_view::npos ? rest.size() : end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return true;
  }
}

}  // namespace heliograph
