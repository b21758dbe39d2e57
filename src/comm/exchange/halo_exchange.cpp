#include "comm/exchange/halo_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "comm/exchange/setup_exchange.hpp"
#include "core/noise.hpp"
#include "core/overflow_advice.hpp"
#include "core/throw_error.hpp"
#include "quant/row_math.hpp"

namespace heliograph {
namespace {

/// The number of runs of rows in one task: so many that the cost of starting a task is negligible.
constexpr std::int64_t kRunsPerTask = 1024;

}  // namespace

HaloExchange::HaloExchange(Communicator& comm, const PlacedShard& shard, const HaloPlan& plan,
                           const SendSchedule& schedule, Site site, std::uint64_t seed)
    : comm_(comm),
      shard_(shard),
      plan_(plan),
      schedule_(schedule),
      site_(std::move(site)),
      seed_(seed),
      sent_(1 + plan.peers.size(), 0) {
  receives_.reserve(plan_.peers.size());
}

void HaloExchange::keep_columns(RowFormat format, int epochs, const Buffer& packed,
                                MemoryAccount* account) {
  packed_ = &packed;
  account_ = account;
  std::vector<std::int64_t> mine, sent, starts{0};
  for (std::int32_t row = 0; row < plan_.inner_rows; ++row) mine.push_back(node_of(row));
  for (const SendSchedule::Message& message : schedule_.messages()) {
    for (const std::int32_t row : message.send_rows) sent.push_back(node_of(row));
    starts.push_back(static_cast<std::int64_t>(sent.size()));
  }
  const auto make = [&](std::vector<std::int64_t> nodes, std::vector<std::int64_t> from, int held) {
    return std::make_unique<KeptColumns>(std::move(nodes), std::move(from), site_.cols, format,
                                         site_.dropped.threshold != 0, held, shard_.device(),
                                         MemoryUse::halo, account);
  };
  sent_columns_ = make(std::move(sent), std::move(starts), 1);
  starts = {};
  for (const HaloPlan::Peer& peer : plan_.peers) {
    for (int piece = 0; piece < schedule_.pieces(); ++piece) {
      starts.push_back(received_begin(peer, piece));
    }
  }
  starts.push_back(plan_.halo_rows);
  received_columns_ = make(exchange_numbers(comm_, plan_, mine), std::move(starts), epochs);
}

void HaloExchange::set_bits(std::vector<std::uint8_t> bits) {
  bits_ = std::move(bits);
  std::vector<std::uint8_t> sent;
  for (const SendSchedule::Message& message : schedule_.messages()) {
    for (const std::int32_t row : message.send_rows) {
      sent.push_back(bits_[static_cast<std::size_t>(row)]);
    }
  }
  const auto inner_rows = static_cast<std::size_t>(plan_.inner_rows);
  sent_columns_->set_bits(sent);
  received_columns_->set_bits(std::span(bits_).subspan(inner_rows));
  if (placed_bits_.size() == 0) placed_bits_ = Buffer(inner_rows, MemoryUse::halo, account_);
  shard_.device().upload(placed_bits_.data(), bits_.data(), inner_rows);
}

void HaloExchange::tell_bits(std::vector<std::uint8_t> inner, Channel channel) {
  // 1, 2, 4 and 8 bits as 0, 1, 2 and 3.
  const auto packed_size = [](std::size_t rows) { return (rows + 3) / 4; };
  std::vector<std::vector<std::uint8_t>> out, in;
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  for (const HaloPlan::Peer& peer : plan_.peers) {
    std::vector<std::uint8_t>& told = out.emplace_back(packed_size(peer.sent.size()));
    for (std::size_t i = 0; i < peer.sent.size(); ++i) {
      const std::uint8_t bits = inner[static_cast<std::size_t>(peer.sent[i])];
      told[i / 4] =
          static_cast<std::uint8_t>(told[i / 4] | ColumnMasks::mask_index(bits) << (i % 4 * 2));
    }
    const auto sent = std::as_bytes(std::span(told));
    if (!sent.empty()) sends.push_back({peer.rank, sent.data(), sent.size()});
    const auto rows = static_cast<std::size_t>(peer.halo_end - peer.halo_begin);
    const auto received = std::as_writable_bytes(std::span(in.emplace_back(packed_size(rows))));
    if (rows > 0) receives.push_back({peer.rank, received.data(), received.size()});
  }
  comm_.wait(comm_.post(channel, sends, receives));
  for (std::size_t p = 0; p < in.size(); ++p) {
    const HaloPlan::Peer& peer = plan_.peers[p];
    for (std::int32_t i = 0; i < peer.halo_end - peer.halo_begin; ++i) {
      const int bits = 1 << (in[p][static_cast<std::size_t>(i / 4)] >> (i % 4 * 2) & 3);
      if (bits > received_columns_->format().bits) {
        throw_error(ErrorCode::peer_lost, "{}: rank {} has told bits that no row may have",
                    site_.name, peer.rank);
      }
      inner.push_back(static_cast<std::uint8_t>(bits));
    }
  }
  set_bits(std::move(inner));
}

std::vector<float> HaloExchange::ranges() const {
  std::vector<float> ranges(static_cast<std::size_t>(plan_.inner_rows), 0.0F);
  const std::size_t row_bytes = slot_->format.row_bytes(site_.cols);
  std::vector<std::byte> copy;
  const std::byte* packed = rows_out_;
  if (!shard_.device().on_host()) {
    copy.resize(static_cast<std::size_t>(schedule_.rows()) * row_bytes);
    shard_.device().download(copy.data(), rows_out_, copy.size());
    packed = copy.data();
  }
  for (const SendSchedule::Message& message : schedule_.messages()) {
    const std::span<const std::int32_t> rows = message.fresh_rows();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto at = static_cast<std::size_t>(rows[i]);
      const auto place = static_cast<std::size_t>(
          message.first_row +
          (message.encodes_all ? static_cast<std::int64_t>(i) : message.new_positions[i]));
      const float step = read_parameters(packed + place * row_bytes, slot_->format).step;
      ranges[at] = step * static_cast<float>(max_code(bits_[at]));
    }
  }
  return ranges;
}

void HaloExchange::draw(KeptColumns& columns, Clock clock) const {
  const DropoutMask& mask = site_.dropped;
  columns.draw(clock.epoch, mask.threshold, stream_key(seed_, Purpose::dropout, clock, mask.key));
}

void HaloExchange::draw_columns(Clock clock) {
  if (!sent_columns_) return;
  draw(*sent_columns_, clock);
  draw(*received_columns_, clock);
}

void HaloExchange::post_receives(HaloSlot& slot, int piece) {
  if (piece == 0) in_ = slot.receive_buffer(receive_offset(slot, plan_.halo_rows));
  receives_.clear();
  for (const HaloPlan::Peer& peer : plan_.peers) {
    const std::int64_t first = received_begin(peer, piece), last = received_begin(peer, piece + 1);
    if (first == last) continue;
    const std::size_t begin = receive_offset(slot, first), end = receive_offset(slot, last);
    receives_.push_back({peer.rank, in_ + begin, end - begin, !shard_.device().on_host()});
  }
  slot.post_receives(receives_);
}

void HaloExchange::compress(std::int64_t begin, std::int64_t end, PhaseClock& times) const {
  if (!sent_columns_) return;
  const PhaseTimer timer(times.encode);
  sent_columns_->compress(clock_.epoch, begin, end, rows_out_, buffer_);
  // Only a device that orders messages sends them after the kernels asked for before.
  if (!slot_->in_order()) shard_.device().finish();
}

void HaloExchange::post(const SendSchedule::Message& message, PhaseClock& times) {
  const std::int64_t end = message.first_row + message.rows();
  const bool on_device = !shard_.device().on_host();
  if (!on_device) compress(message.first_row, end, times);
  const std::size_t begin = send_offset(message.first_row), bytes = send_offset(end) - begin;
  const auto peer = std::ranges::find(plan_.peers, message.peer, &HaloPlan::Peer::rank);
  sent_[static_cast<std::size_t>(1 + (peer - plan_.peers.begin()))] +=
      static_cast<std::int64_t>(bytes);
  slot_->post_send({message.peer, buffer_ + begin, bytes, on_device});
}

void HaloExchange::open(HaloSlot& slot, const Codec& codec, Clock clock, const OfferedRows& rows,
                        PhaseClock& times) {
  slot_ = &slot;
  codec_ = &codec;
  clock_ = clock;
  rows_ = rows;
  ++sent_[0];
  piece_ = 0;
  slot.user = this;
  slot.format = codec.format();
  slot.epoch = clock.epoch;
  if (comm_.size() == 1) return;  // There is nothing to wait for, not even for the device.
  if (slot.in_order()) {
    if (!slot.followed()) slot.follow();
  } else {
    {
      const PhaseTimer timer(times.exposed_comm);
      slot.wait_for_receives();
    }
    shard_.device().finish();  // Kernels may still read what the slot received before.
    for (int piece = 0; piece < schedule_.pieces(); ++piece) post_receives(slot, piece);
    const PhaseTimer timer(times.exposed_comm);
    slot.wait_for_sends();
  }
  buffer_ = slot.send_buffer(codec.encoded_bytes(schedule_.rows(), site_.cols));
  rows_out_ = sent_columns_ ? packed_->data() : buffer_;
  stream_ = stream_key(seed_, Purpose::rounding, clock, site_.key);
}

std::byte* HaloExchange::row_at(const SendSchedule::Message& message, std::int64_t row) const {
  return rows_out_ +
         static_cast<std::size_t>(message.first_row + row) * slot_->format.row_bytes(site_.cols);
}

void HaloExchange::encode(const RowSelection& rows, std::byte* out, PhaseClock& times) const {
  const PhaseTimer timer(times.encode);
  const UnencodableRow bad =
      codec_->encode(rows_.values, rows, stream_, out, shard_.device().threads());
  if (bad.row >= 0) refuse(bad);
}

/// Encodes those rows of a message that no earlier message holds.
void HaloExchange::encode(const SendSchedule::Message& message, RowRange rows,
                          PhaseClock& times) const {
  const std::span<const std::int32_t> all = message.fresh_rows();
  const auto begin = std::lower_bound(all.begin(), all.end(), rows.begin) - all.begin();
  const auto end = std::lower_bound(all.begin(), all.end(), rows.end) - all.begin();
  if (begin == end) return;
  RowSelection selection{{all.data() + begin, static_cast<std::size_t>(end - begin)},
                         rows_.scale,
                         row_ids(),
                         nullptr,
                         rows_.exact};
  if (!message.encodes_all) selection.positions = message.new_positions.data() + begin;
  selection.bits = row_bits();
  encode(selection, row_at(message, message.encodes_all ? begin : 0), times);
}

/// Copies the other rows from earlier messages, in which they are already encoded.
void HaloExchange::copy_shared(const SendSchedule::Message& message) const {
  const std::size_t row_bytes = slot_->format.row_bytes(site_.cols);
  for (const SendSchedule::Copies& copies : message.copies) {
    const SendSchedule::Message& source = schedule_.messages()[copies.message];
    shard_.device().threads().for_ranges(
        static_cast<std::int64_t>(copies.runs.size()), kRunsPerTask,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const SendSchedule::Run& run = copies.runs[static_cast<std::size_t>(i)];
            std::memcpy(row_at(message, run.to), row_at(source, run.from),
                        static_cast<std::size_t>(run.rows) * row_bytes);
          }
        });
  }
}

void HaloExchange::offer(RowRange rows, PhaseClock& times) {
  if (comm_.size() == 1) return;
  if (shard_.device().on_host()) {
    offer_on_host(rows, times);
  } else {
    offer_on_device(rows.end, times);
  }
  if (rows.end == rows_.values.rows && !slot_->in_order()) comm_.flush();
}

void HaloExchange::offer_on_host(RowRange rows, PhaseClock& times) {
  for (const SendSchedule::Message& message : schedule_.messages()) {
    encode(message, rows, times);
    // Rows are offered in ascending order, so the message is complete after its last row.
    const std::int32_t final_row = message.send_rows.back();
    if (final_row < rows.begin || final_row >= rows.end) continue;
    {
      const PhaseTimer timer(times.encode);
      copy_shared(message);
    }
    post(message, times);
  }
}

void HaloExchange::offer_on_device(std::int64_t end, PhaseClock& times) {
  // Every rank receives what others send of a piece in the same group of messages as it sends its
  // own, since a group may wait for all of its messages.
  const auto encode_rows = [&](std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    RowSelection selection{schedule_.placed_rows().subspan(static_cast<std::size_t>(first),
                                                           static_cast<std::size_t>(rows)),
                           rows_.scale,
                           row_ids(),
                           nullptr,
                           rows_.exact,
                           slot_->in_order() ? failed_ : nullptr,
                           row_bits()};
    selection.first = first;
    encode(selection,
           rows_out_ + static_cast<std::size_t>(first) * slot_->format.row_bytes(site_.cols),
           times);
    compress(first, first + rows, times);
  };
  const std::vector<SendSchedule::Message>& messages = schedule_.messages();
  for (; piece_ < schedule_.pieces(); ++piece_) {
    const auto waits = [&](const SendSchedule::Message& m) {
      return m.piece == piece_ && m.send_rows.back() >= end;
    };
    if (std::ranges::any_of(messages, waits)) return;
    if (schedule_.pieces() == 1) encode_rows(0, schedule_.rows());
    for (const SendSchedule::Message& m : messages) {
      if (m.piece == piece_ && schedule_.pieces() > 1) encode_rows(m.first_row, m.rows());
    }
    if (slot_->in_order()) post_receives(*slot_, piece_);
    for (const SendSchedule::Message& m : messages) {
      if (m.piece == piece_) post(m, times);
    }
    if (slot_->in_order()) slot_->flush();
  }
}

std::int64_t HaloExchange::noted_node() const {
  auto index = static_cast<std::size_t>(std::int64_t{*failed_} + kNoFailedRow);
  for (const SendSchedule::Message& message : schedule_.messages()) {
    const std::span<const std::int32_t> rows = message.send_rows;
    if (index < rows.size()) return node_of(rows[index]);
    index -= rows.size();
  }
  throw Error(ErrorCode::usage, site_.name + ": no row of this exchange was noted");
}

PackedRows HaloExchange::finish(HaloSlot& slot, const Buffer& expanded, PhaseClock& times) {
  if (slot.user != this) {
    throw Error(ErrorCode::usage,
                site_.name + ": the slot of its halo holds no rows of this exchange");
  }
  if (comm_.size() == 1) return {slot.received(), 0, site_.cols, 0, slot.format};
  if (slot.in_order()) {
    const PhaseTimer timer(times.exposed_comm);
    slot.follow();
  } else {
    shard_.device().finish();  // The time until the device is done is not exposed communication.
    const PhaseTimer timer(times.exposed_comm);
    slot.wait_for_receives();
  }
  const std::byte* rows = slot.received();
  if (received_columns_) {
    const PhaseTimer timer(times.encode);
    received_columns_->expand(slot.epoch, rows, expanded.data());
    rows = expanded.data();
  }
  return {rows, plan_.halo_rows, site_.cols, 0, slot.format};
}

std::span<std::byte> HaloExchange::adopt(HaloSlot& slot, RowFormat format, Clock clock) {
  slot.user = this;
  slot.format = format;
  slot.epoch = clock.epoch;
  if (received_columns_) {
    draw(*received_columns_, clock);
    shard_.device().finish();
  }
  const std::size_t bytes = receive_offset(slot, plan_.halo_rows);
  return {slot.receive_buffer(bytes), bytes};
}

std::int64_t HaloExchange::fp32_bytes_sent() const {
  std::int64_t rows = 0;
  for (const HaloPlan::Peer& peer : plan_.peers) rows += boundary_rows(peer);
  return rows * sent_[0] * fp32_row_bytes();
}

void HaloExchange::append_traffic(std::vector<LinkTraffic>& traffic) const {
  for (std::size_t i = 0; i < plan_.peers.size(); ++i) {
    const HaloPlan::Peer& peer = plan_.peers[i];
    if (peer.sent.empty() && boundary_rows(peer) == 0) continue;
    LinkTraffic link;
    link.from = comm_.rank();
    link.to = peer.rank;
    link.site = site_.id;
    link.bytes = sent_[1 + i];
    link.fp32_bytes = boundary_rows(peer) * sent_[0] * fp32_row_bytes();
    traffic.push_back(link);
  }
}

std::int64_t HaloExchange::node_of(std::int32_t row) const {
  const Shard& shard = shard_.shard();
  const auto at = static_cast<std::size_t>(row);
  if (!site_.partial_sums) return shard.global_ids[at];
  return PartialSums::node_of(shard.adjacency(site_.direction).sums->ids[at]);
}

void HaloExchange::refuse(const UnencodableRow& row) const {
  const std::string what =
      row.col >= 0 ? "is " + std::to_string(row.value) + " in column " + std::to_string(row.col)
                   : std::string("spans more than the wire format holds");
  throw_error(ErrorCode::numeric, "rows of {}, node {}: the row {}: {}", site_.name,
              node_of(row.row), what, overflow_advice(clock_.epoch));
}

}  // namespace heliograph
