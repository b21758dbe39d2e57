#include "comm/integer_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/collectives.hpp"

namespace heliograph {
namespace {

// Exponents e of a block, whose values are below 2^e. Smaller values have the least exponent.
constexpr std::int8_t kZero = -128;      ///< Every value is 0.
constexpr std::int8_t kNotFinite = 127;  ///< A value is NaN, infinite or too large.
constexpr int kLeastExponent = -100;

std::size_t blocks_of(std::size_t count) {
  return (count + IntegerSum::kBlock - 1) / IntegerSum::kBlock;
}

/// The largest integer of one rank.
constexpr int largest(int bits) { return (1 << (bits - 1)) - 1; }

/// The bytes of a sum of integers over ranks.
std::size_t sum_bytes(int bits, int ranks) {
  const std::int64_t most = std::int64_t{largest(bits)} * ranks;
  if (most <= std::numeric_limits<std::int8_t>::max()) return 1;
  return most <= std::numeric_limits<std::int16_t>::max() ? 2 : 4;
}

std::size_t code_bytes(int bits) { return IntegerSum::kBlock * static_cast<std::size_t>(bits) / 8; }

float step_of(std::int8_t exponent, int bits) { return std::ldexp(1.0F, exponent - (bits - 1)); }

/// The exponent of a block. Rounding up must not pass the largest integer.
std::int8_t exponent_of(std::span<const float> values, int bits) {
  float most = 0;
  bool finite = true;
  for (const float v : values) {
    const float magnitude = std::abs(v);
    finite = finite && magnitude < 0x1p125F;  // False for NaN.
    most = std::max(most, magnitude);
  }
  if (!finite) return kNotFinite;
  if (most == 0) return kZero;
  int exponent = 0;
  std::frexp(most, &exponent);
  exponent = std::max(exponent, kLeastExponent);
  if (most >
      static_cast<float>(largest(bits)) * step_of(static_cast<std::int8_t>(exponent), bits)) {
    ++exponent;
  }
  return static_cast<std::int8_t>(exponent);
}

/// Rounds `count` values to integers, which are multiples of 1 / scale.
void round_at_random(const float* values, std::size_t count, float scale, std::uint64_t key,
                     std::int32_t* integers) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = values[i] * scale;
    const auto truncated = static_cast<std::int32_t>(x);
    const std::int32_t below = truncated - (x < static_cast<float>(truncated) ? 1 : 0);
    const float share = x - static_cast<float>(below);
    const float draw =
        static_cast<float>(noise_word(key, static_cast<std::uint32_t>(i)) >> 8) * 0x1p-24F;
    integers[i] = below + (draw < share ? 1 : 0);
  }
}

template <class Integer>
void store(const std::int32_t* integers, std::byte* to) {
  auto* out = reinterpret_cast<Integer*>(to);
  for (std::size_t i = 0; i < IntegerSum::kBlock; ++i) out[i] = static_cast<Integer>(integers[i]);
}

/// Two integers of 4 bits a byte, 8 added to each, the first one in the lower half.
void store_halves(const std::int32_t* integers, std::byte* to) {
  for (std::size_t i = 0; i < IntegerSum::kBlock / 2; ++i) {
    to[i] = static_cast<std::byte>((integers[2 * i] + 8) | ((integers[2 * i + 1] + 8) << 4));
  }
}

template <class Integer>
void add(const std::byte* from, std::int32_t* sums) {
  const auto* in = reinterpret_cast<const Integer*>(from);
  for (std::size_t i = 0; i < IntegerSum::kBlock; ++i) sums[i] += in[i];
}

void add_halves(const std::byte* from, std::int32_t* sums) {
  for (std::size_t i = 0; i < IntegerSum::kBlock / 2; ++i) {
    sums[2 * i] += std::to_integer<int>(from[i] & std::byte{15}) - 8;
    sums[2 * i + 1] += std::to_integer<int>(from[i] >> 4) - 8;
  }
}

void grow(Buffer& buffer, std::size_t bytes, MemoryAccount* account) {
  if (buffer.size() < bytes) buffer = Buffer(bytes, MemoryUse::workspace, account);
}

constexpr std::int64_t kGrain = 32;  ///< Blocks that a thread takes at a time.

}  // namespace

IntegerSum::IntegerSum(Communicator& comm, Channel channel, int bits, std::uint64_t seed,
                       ThreadPool& threads, MemoryAccount* account)
    : comm_(comm),
      channel_(channel),
      bits_(bits),
      seed_(seed),
      threads_(threads),
      account_(account) {}

IntegerSum::~IntegerSum() {
  if (in_flight_) comm_.abort("the run ended with a sum of gradients under way");
}

std::int64_t IntegerSum::bytes_sent(std::int64_t count, int bits, int ranks) {
  const auto blocks = static_cast<std::int64_t>(blocks_of(static_cast<std::size_t>(count)));
  const std::size_t block_bytes = 2 + code_bytes(bits) + kBlock * sum_bytes(bits, ranks);
  return (ranks - 1) * blocks * static_cast<std::int64_t>(block_bytes);
}

std::int64_t IntegerSum::scratch_bytes(std::int64_t count, int bits, int ranks) {
  const std::size_t blocks = blocks_of(static_cast<std::size_t>(count));
  const std::size_t mine = blocks / static_cast<std::size_t>(ranks);
  return static_cast<std::int64_t>(blocks *
                                       (1 + code_bytes(bits) + kBlock * sum_bytes(bits, ranks)) +
                                   mine * static_cast<std::size_t>(ranks - 1) * code_bytes(bits));
}

/// Starts to send every other rank's blocks of `data` to it, and to receive theirs of this rank's
/// blocks into `others_`, one rank after the other.
void IntegerSum::scatter(std::byte* data, std::size_t block_bytes) {
  const auto [begin, end] = AllReduce::block(blocks_, comm_.rank(), comm_.size());
  const std::size_t mine = (end - begin) * block_bytes;
  grow(others_, mine * static_cast<std::size_t>(comm_.size() - 1), account_);
  std::byte* slot = others_.data();
  for (int peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    const auto [first, last] = AllReduce::block(blocks_, peer, comm_.size());
    sends_.push_back({peer, data + first * block_bytes, (last - first) * block_bytes});
    receives_.push_back({peer, slot, mine});
    slot += mine;
  }
  exchange();
}

/// Sends this rank's blocks of `data` to all others, and receives theirs.
void IntegerSum::gather(std::byte* data, std::size_t block_bytes) {
  const auto [begin, end] = AllReduce::block(blocks_, comm_.rank(), comm_.size());
  for (int peer = 0; peer < comm_.size(); ++peer) {
    if (peer == comm_.rank()) continue;
    const auto [first, last] = AllReduce::block(blocks_, peer, comm_.size());
    sends_.push_back({peer, data + begin * block_bytes, (end - begin) * block_bytes});
    receives_.push_back({peer, data + first * block_bytes, (last - first) * block_bytes});
  }
  exchange();
}

void IntegerSum::exchange() {
  in_flight_ = true;
  const Ticket ticket = comm_.post(channel_, sends_, receives_);
  comm_.wait(ticket);
  in_flight_ = false;
  sends_.clear();
  receives_.clear();
}

void IntegerSum::agree_on_exponents(std::span<const float> values) {
  auto* exponents = reinterpret_cast<std::int8_t*>(exponents_.data());
  threads_.for_ranges(static_cast<std::int64_t>(blocks_), kGrain, [&](auto begin, auto end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
      const std::size_t at = b * kBlock;
      exponents[b] = exponent_of(values.subspan(at, std::min(kBlock, values.size() - at)), bits_);
    }
  });
  scatter(exponents_.data(), 1);
  const auto [begin, end] = AllReduce::block(blocks_, comm_.rank(), comm_.size());
  const auto* others = reinterpret_cast<const std::int8_t*>(others_.data());
  for (int other = 1; other < comm_.size(); ++other) {
    for (std::size_t b = begin; b < end; ++b) exponents[b] = std::max(exponents[b], *others++);
  }
  gather(exponents_.data(), 1);
}

void IntegerSum::encode(std::span<const float> values, Clock clock) {
  const auto* exponents = reinterpret_cast<const std::int8_t*>(exponents_.data());
  const std::uint64_t stream = stream_key(seed_, Purpose::gradient_rounding, clock,
                                          static_cast<std::uint64_t>(comm_.rank()));
  threads_.for_ranges(static_cast<std::int64_t>(blocks_), kGrain, [&](auto begin, auto end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
      std::int32_t integers[kBlock] = {};
      if (exponents[b] != kZero && exponents[b] != kNotFinite) {
        const std::size_t at = b * kBlock;
        round_at_random(values.data() + at, std::min(kBlock, values.size() - at),
                        1 / step_of(exponents[b], bits_), row_key(stream, b), integers);
      }
      std::byte* to = codes_.data() + b * code_bytes(bits_);
      if (bits_ == 16) store<std::int16_t>(integers, to);
      if (bits_ == 8) store<std::int8_t>(integers, to);
      if (bits_ == 4) store_halves(integers, to);
    }
  });
}

/// Writes the sums of all ranks' codes of this rank's blocks.
template <class Integer>
void IntegerSum::add_codes() {
  const auto mine = AllReduce::block(blocks_, comm_.rank(), comm_.size());
  const std::size_t first = mine.first, count = mine.second - mine.first;
  const std::size_t bytes = code_bytes(bits_);
  threads_.for_ranges(static_cast<std::int64_t>(count), kGrain, [&](auto begin, auto end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
      std::int32_t sums[kBlock] = {};
      const auto add_block = [&](const std::byte* from) {
        if (bits_ == 16) add<std::int16_t>(from, sums);
        if (bits_ == 8) add<std::int8_t>(from, sums);
        if (bits_ == 4) add_halves(from, sums);
      };
      add_block(codes_.data() + (first + b) * bytes);
      for (std::size_t other = 0; other + 1 < static_cast<std::size_t>(comm_.size()); ++other) {
        add_block(others_.data() + (other * count + b) * bytes);
      }
      store<Integer>(sums, sums_.data() + (first + b) * kBlock * sizeof(Integer));
    }
  });
  gather(sums_.data(), kBlock * sizeof(Integer));
}

template <class Integer>
void IntegerSum::decode(std::span<float> values) {
  const auto* exponents = reinterpret_cast<const std::int8_t*>(exponents_.data());
  const auto* sums = reinterpret_cast<const Integer*>(sums_.data());
  threads_.for_ranges(static_cast<std::int64_t>(blocks_), kGrain, [&](auto begin, auto end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
      float step = step_of(exponents[b], bits_);
      if (exponents[b] == kNotFinite) step = std::numeric_limits<float>::quiet_NaN();
      const std::size_t at = b * kBlock;
      for (std::size_t i = at; i < std::min(at + kBlock, values.size()); ++i) {
        values[i] = static_cast<float>(sums[i]) * step;
      }
    }
  });
}

template <class Integer>
void IntegerSum::add_and_decode(std::span<float> values) {
  add_codes<Integer>();
  decode<Integer>(values);
}

void IntegerSum::sum(std::span<float> values, Clock clock) {
  if (comm_.size() == 1 || values.empty()) return;
  blocks_ = blocks_of(values.size());
  const std::size_t width = sum_bytes(bits_, comm_.size());
  grow(exponents_, blocks_, account_);
  grow(codes_, blocks_ * code_bytes(bits_), account_);
  grow(sums_, blocks_ * kBlock * width, account_);
  agree_on_exponents(values);
  encode(values, clock);
  scatter(codes_.data(), code_bytes(bits_));
  if (width == 1) add_and_decode<std::int8_t>(values);
  if (width == 2) add_and_decode<std::int16_t>(values);
  if (width == 4) add_and_decode<std::int32_t>(values);
}

}  // namespace heliograph
