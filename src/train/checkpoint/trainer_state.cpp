#include "train/checkpoint/trainer_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "core/plural.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// The section "rank".
struct RankHeader {
  std::int64_t rank, ranks, epochs, evaluation_bytes;
};
static_assert(sizeof(RankHeader) == 4 * 8);

/// The values of parameter `i` in a buffer that is laid out as the flat parameters.
template <class T>
std::span<T> values_of(const Parameters& parameters, int i, std::span<T> flat) {
  const MatrixView w = parameters.value(i);
  return flat.subspan(static_cast<std::size_t>(parameters.offset(i)),
                      static_cast<std::size_t>(w.rows * w.cols));
}

/// The sections of the optimizer's moments, and their values.
auto moments_of(const Optimizer& optimizer) {
  return std::array{std::pair{"first_moments", optimizer.first_moments()},
                    std::pair{"second_moments", optimizer.second_moments()}};
}

/// The section of rows that a site has received ("halo") or sent ("kept") in an epoch.
std::string rows_section(const char* kind, const Site& site, std::int64_t epoch) {
  return fmt::format("{}.{}.{}", kind, site.name, epoch);
}

/// The first epoch whose halo rows are used after `epochs` epochs.
std::int64_t first_epoch_used(Trainer& trainer, int epochs) {
  return epochs - trainer.halo().policy().lag({epochs});
}

/// The section of the bits that a site's rows have.
std::string bits_section(const Site& site) { return fmt::format("bits.{}", site.name); }

void write_optimizer(Trainer& trainer, StateWriter& file) {
  const Optimizer& optimizer = trainer.optimizer();
  file.section("ranges", optimizer.ranges());
  for (const auto& [name, moments] : moments_of(optimizer)) {
    const HostValues<float> host(moments, trainer.device());
    file.section(name, std::span<const float>(host.view()));
  }
}

void read_optimizer(const StateFile& file, std::int64_t steps, Trainer& trainer) {
  Optimizer& optimizer = trainer.optimizer();
  std::vector<Optimizer::Range> ranges(file.count<Optimizer::Range>("ranges"));
  file.read("ranges", std::span<Optimizer::Range>(ranges));
  if (!optimizer.resume(steps, std::move(ranges))) {
    file.refuse("ranges", "does not cover the parameters of this model once");
  }
  for (const auto& [name, moments] : moments_of(optimizer)) {
    HostValues<float> host(moments, trainer.device());
    file.read(name, host.view());
    host.store();
  }
}

/// The sections of the moments that a guard keeps, and their values.
template <class Kept>
auto kept_moments(Kept& kept) {
  return std::array{std::pair{"guard.first_moments", &kept.first_moments},
                    std::pair{"guard.second_moments", &kept.second_moments}};
}

void write_kept_moments(const GuardState& guard, StateWriter& file) {
  if (!guard.kept) return;
  for (const auto& [name, values] : kept_moments(*guard.kept)) {
    file.section(name, std::span<const float>(*values));
  }
}

void read_kept_moments(const StateFile& file, const Optimizer& optimizer, GuardState& guard) {
  if (!guard.kept) return;
  for (const auto& [name, values] : kept_moments(*guard.kept)) {
    values->resize(guard.kept->steps == 0 ? 0 : optimizer.first_moments().size());
    file.read(name, std::span<float>(*values));
  }
}

}  // namespace

HostWeights::HostWeights(Trainer& trainer)
    : values_(trainer.model().parameters().flat_values(), trainer.device()) {
  const Parameters& parameters = trainer.model().parameters();
  for (int i = 0; i < parameters.count(); ++i) {
    const MatrixView w = parameters.value(i);
    std::vector<std::uint64_t> shape{static_cast<std::uint64_t>(w.cols)};
    if (parameters.kind(i) == ParameterKind::weight) {  // Biases and gains are vectors.
      shape.insert(shape.begin(), static_cast<std::uint64_t>(w.rows));
    }
    tensors_.push_back(
        {parameters.name(i), std::move(shape), values_of(parameters, i, values_.view())});
  }
  for (int i = 0; i < parameters.statistics(); ++i) {
    const Parameters::Statistic s = parameters.statistic(i);
    const auto cols = static_cast<std::size_t>(s.value.cols);
    tensors_.push_back(
        {s.name, {cols}, values_.view().subspan(static_cast<std::size_t>(s.offset), cols)});
  }
}

Model make_model(const RunPlan& plan, Trainer& trainer, int epoch) {
  const TrainOptions& options = plan.options();
  const RunFacts& facts = plan.facts();
  Model model;
  model.options = options.model;
  model.reproducible = options.reproducible;
  model.normalize = options.normalize;
  model.statistics = facts.statistics;
  model.target = facts.target;
  model.graph = facts.graph_kind();
  model.feature_cols = facts.feature_cols;
  model.task = facts.task;
  model.classes = facts.classes;
  model.class_names = facts.class_names;
  model.split = options.split;
  model.metric = plan.metric();
  model.epoch = epoch;
  const HostWeights weights(trainer);
  for (const NamedTensor& from : weights.tensors()) {
    model.tensors.push_back({from.name, from.shape, {from.values.begin(), from.values.end()}});
  }
  return model;
}

void copy_weights(Trainer& trainer, Model& model) {
  const HostWeights weights(trainer);
  for (const NamedTensor& from : weights.tensors()) {
    const auto to = std::ranges::find(model.tensors, from.name, &Tensor::name);
    std::ranges::copy(from.values, to->values.begin());
  }
}

void require_tensors(const Model& model, const std::string& origin, Trainer& trainer) {
  const auto refuse = [&](const std::string& what) {
    throw_error(ErrorCode::mismatch, "{}: {}", origin, what);
  };
  const HostWeights weights(trainer);
  const auto find = [](const auto& tensors, const std::string& name) {
    return std::ranges::find_if(tensors, [&](const auto& t) { return t.name == name; });
  };
  for (const Tensor& stored : model.tensors) {
    const auto target = find(weights.tensors(), stored.name);
    if (target == weights.tensors().end()) {
      refuse(fmt::format("the model has no tensor {}", stored.name));
    }
    if (target->shape != stored.shape) {
      refuse(fmt::format("tensor {} is {}; this model and data set need {}", stored.name,
                         fmt::join(stored.shape, " x "), fmt::join(target->shape, " x ")));
    }
    if (stored.values.size() != target->values.size()) {
      refuse(fmt::format("tensor {} of {} has {} values", stored.name,
                         fmt::join(stored.shape, " x "), stored.values.size()));
    }
  }
  for (const NamedTensor& t : weights.tensors()) {
    if (find(model.tensors, t.name) == model.tensors.end()) {
      refuse(fmt::format("tensor {} is missing", t.name));
    }
  }
}

void set_weights(const Model& model, const std::string& origin, Trainer& trainer) {
  require_tensors(model, origin, trainer);
  HostWeights weights(trainer);
  for (const NamedTensor& to : weights.tensors()) {
    const auto from = std::ranges::find(model.tensors, to.name, &Tensor::name);
    std::ranges::copy(from->values, to.values.begin());
  }
  weights.store();
}

void write_rank(Trainer& trainer, const RunState& state, std::int64_t evaluation_bytes,
                const Communicator& comm, StateWriter& file) {
  const RankHeader header{comm.rank(), comm.size(), state.epochs, evaluation_bytes};
  file.section("rank", std::span<const RankHeader>(&header, 1));
  StaleHalo& halo = trainer.halo();
  file.section("sent", std::span<const std::int64_t>(halo.sent()));
  for (const StaleHalo::SiteBits& of : halo.bits()) {
    file.section(bits_section(of.site), std::span<const std::uint8_t>(of.bits));
  }
  const std::int64_t first = first_epoch_used(trainer, state.epochs);
  const auto write = [&](const char* kind, const auto& all) {
    for (const auto& held : all) {
      const HostValues<const std::byte> rows(held.rows, trainer.device());
      file.section(rows_section(kind, held.site, held.epoch), rows.view());
    }
  };
  write("halo", halo.received(first, state.epochs - 1));
  write("kept", halo.kept_before(state.epochs));
  write_optimizer(trainer, file);
  write_kept_moments(state.guard, file);
}

void read_rank(const StateFile& file, const Communicator& comm, Trainer& trainer, RunState& state) {
  RankHeader header{};
  file.read("rank", std::span<RankHeader>(&header, 1));
  if (header.rank != comm.rank() || header.ranks != comm.size() || header.epochs != state.epochs) {
    file.refuse("rank", fmt::format("is of rank {} of {} after {} epochs, not of rank {} of {} "
                                    "after {}",
                                    header.rank, header.ranks, header.epochs, comm.rank(),
                                    comm.size(), state.epochs));
  }
  StaleHalo& halo = trainer.halo();
  std::vector<std::int64_t> sent(halo.sent().size());
  file.read("sent", std::span<std::int64_t>(sent));
  if (!halo.sent_fits(sent, state.epochs)) {
    file.refuse("sent", fmt::format("holds a count that no run reaches in {}",
                                    counted(state.epochs, "epoch")));
  }
  if (!is_sent_bytes(header.evaluation_bytes)) {
    file.refuse("rank", "holds a count of bytes that no run reaches");
  }
  halo.set_sent(sent);
  for (StaleHalo::SiteBits& of : halo.bits()) {
    file.read(bits_section(of.site), std::span<std::uint8_t>(of.bits));
    const int fewest = halo.policy().fewest_bits(of.site), most = halo.policy().most_bits();
    if (!std::ranges::all_of(of.bits, [&](std::uint8_t bits) {
          return bits >= fewest && bits <= most && std::has_single_bit(bits);
        })) {
      file.refuse(bits_section(of.site), "holds bits that no row may have");
    }
    halo.set_bits(of.site, std::move(of.bits));
  }
  const std::int64_t first = first_epoch_used(trainer, state.epochs);
  const auto read = [&](const char* kind, const auto& all) {
    for (const auto& held : all) {
      HostValues<std::byte> rows(held.rows, trainer.device());
      file.read(rows_section(kind, held.site, held.epoch), rows.view());
      rows.store();
    }
  };
  read("halo", halo.adopt(first, state.epochs - 1));
  read("kept", halo.kept_before(state.epochs));
  read_optimizer(file, state.epochs - state.guard.undone, trainer);
  read_kept_moments(file, trainer.optimizer(), state.guard);
  state.evaluation_bytes.set(header.evaluation_bytes);
}

}  // namespace heliograph
