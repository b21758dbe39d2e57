#include <fmt/format.h>

#include <string>

#include "train/trainer.hpp"

namespace heliograph {
namespace {

/// The section "rank".
struct RankHeader {
  std::int64_t rank, ranks, epochs, evaluation_bytes;
};
static_assert(sizeof(RankHeader) == 4 * 8);

std::string halo_section(const Site& site, std::int64_t epoch) {
  return fmt::format("halo.{}.{}", site.name, epoch);
}

/// use(name, values) for each parameter's part of a flat buffer, without padding.
template <class Use>
void for_each_moment(const Parameters& parameters, const char* kind, std::span<float> flat,
                     Use use) {
  for (int i = 0; i < parameters.count(); ++i) {
    const MatrixView w = parameters.value(i);
    use(fmt::format("{}.{}", kind, parameters.name(i)),
        flat.subspan(static_cast<std::size_t>(parameters.offset(i)),
                     static_cast<std::size_t>(w.rows * w.cols)));
  }
}

}  // namespace

std::vector<NamedTensor> Trainer::weights() {
  const Parameters& parameters = model_->parameters();
  const std::span<float> flat = fetch(parameters.flat_values(), weights_copy_);
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < parameters.count(); ++i) {
    const MatrixView w = parameters.value(i);
    NamedTensor tensor{parameters.name(i),
                       {},
                       flat.subspan(static_cast<std::size_t>(parameters.offset(i)),
                                    static_cast<std::size_t>(w.rows * w.cols))};
    // A bias or gain is a vector.
    if (parameters.decays(i)) tensor.shape.push_back(static_cast<std::uint64_t>(w.rows));
    tensor.shape.push_back(static_cast<std::uint64_t>(w.cols));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void Trainer::store_weights() {
  store(model_->parameters().flat_values(), std::span<const float>(weights_copy_));
}

void Trainer::write_optimizer(StateWriter& file) {
  const std::int64_t steps = optimizer_->steps();
  file.section("steps", std::span<const std::int64_t>(&steps, 1));
  const auto write = [&](const std::string& name, std::span<const float> values) {
    file.section(name, values);
  };
  const Parameters& parameters = model_->parameters();
  std::vector<float> first, second;
  for_each_moment(parameters, "first_moment", fetch(optimizer_->first_moments(), first), write);
  for_each_moment(parameters, "second_moment", fetch(optimizer_->second_moments(), second), write);
}

void Trainer::read_optimizer(const StateFile& file) {
  std::int64_t steps = 0;
  file.read("steps", std::span<std::int64_t>(&steps, 1));
  const auto read = [&](const std::string& name, std::span<float> values) {
    file.read(name, values);
  };
  const Parameters& parameters = model_->parameters();
  const auto read_moments = [&](const char* kind, std::span<float> moments) {
    std::vector<float> copy;
    const std::span<float> host = fetch(moments, copy);
    for_each_moment(parameters, kind, host, read);
    store(moments, std::span<const float>(host));
  };
  read_moments("first_moment", optimizer_->first_moments());
  read_moments("second_moment", optimizer_->second_moments());
  optimizer_->set_steps(steps);
}

std::int64_t Trainer::first_used(int epochs) const {
  return epochs - halo_->policy().lag({epochs});
}

void Trainer::write_rank(StateWriter& file, int epochs, std::int64_t evaluation_bytes) {
  const RankHeader header{comm_.rank(), comm_.size(), epochs, evaluation_bytes};
  file.section("rank", std::span<const RankHeader>(&header, 1));
  file.section("predictions", std::span<const std::int32_t>(kept_predictions_));
  file.section("scores", std::span<const float>(kept_scores_));
  file.section("sent", std::span<const SentRows>(halo_->sent()));
  for (const auto& held : halo_->received(first_used(epochs), epochs - 1)) {
    std::vector<std::byte> copy;
    file.section(halo_section(held.site, held.epoch), fetch(held.rows, copy));
  }
}

void Trainer::read_rank(const StateFile& file, int epochs) {
  RankHeader header{};
  file.read("rank", std::span<RankHeader>(&header, 1));
  if (header.rank != comm_.rank() || header.ranks != comm_.size() || header.epochs != epochs) {
    file.refuse("rank", fmt::format("is of rank {} of {} after {} epochs, not of rank {} of {} "
                                    "after {}",
                                    header.rank, header.ranks, header.epochs, comm_.rank(),
                                    comm_.size(), epochs));
  }
  const LocalLabels& labels = (whole_ ? *whole_ : *train_).labels();
  const std::size_t rows = labels.role.size();
  const std::size_t cols =
      labels.task == Task::multiclass ? 1 : static_cast<std::size_t>(labels.classes);
  // Nothing is kept before the first evaluation.
  const auto read_kept = [&](const char* name, auto& values, std::size_t count) {
    using T = typename std::remove_reference_t<decltype(values)>::value_type;
    values.resize(file.count<T>(name) == 0 ? 0 : count);
    file.read(name, std::span<T>(values));
  };
  read_kept("predictions", kept_predictions_, rows * cols);
  read_kept("scores", kept_scores_, rows);
  kept_.set(static_cast<std::int64_t>(kept_predictions_.capacity() * sizeof(std::int32_t) +
                                      kept_scores_.capacity() * sizeof(float)));
  std::vector<SentRows> sent(model_->sites().size());
  file.read("sent", std::span<SentRows>(sent));
  halo_->set_sent(sent);
  for (const auto& held : halo_->adopt(first_used(epochs), epochs - 1)) {
    std::vector<std::byte> copy;
    const std::span<std::byte> host = fetch(held.rows, copy);
    file.read(halo_section(held.site, held.epoch), host);
    store(held.rows, std::span<const std::byte>(host));
  }
  set_evaluation_bytes(header.evaluation_bytes);
}

}  // namespace heliograph
