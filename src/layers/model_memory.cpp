#include "layers/model_memory.hpp"

#include <algorithm>
#include <cstddef>

#include "layers/composition.hpp"

namespace heliograph {
namespace {

std::vector<Stretch> stretches_of(const Composition& model) {
  std::vector<Stretch> all{{0, 0}};
  for (int i = 0; i < model.steps(); ++i) {
    if (model.gathers(i)) all.push_back({i, i});
    all.back().end = i + 1;
  }
  return all;
}

/// A run of times, both ends included.
struct Span {
  int first = 0;
  int last = 0;
};

/// When each step works, in the order of what a pass does.
struct Order {
  std::vector<Span> forward;  ///< From the first row that it is offered to its last row.
  std::vector<int> backward;
  int end = 0;

  Order(const Composition& model, const std::vector<Stretch>& stretches, bool in_blocks) {
    forward.resize(static_cast<std::size_t>(model.steps()));
    for (const Stretch& s : stretches) {
      for (int i = s.first; i < s.end; ++i) {
        Span& span = forward[static_cast<std::size_t>(i)];
        if (!model.gathers(i)) span.first = end;
        span.last = end;
        if (!in_blocks) ++end;  // Blocks are made in turn: then all of a stretch is one time.
      }
      if (s.end < model.steps()) forward[static_cast<std::size_t>(s.end)].first = end;
      ++end;
    }
    backward.resize(forward.size());
    for (std::size_t i = backward.size(); i-- > 0;) backward[i] = end++;
  }
};

std::int64_t matrix_bytes(std::int64_t rows, std::int64_t cols, std::int64_t value_bytes) {
  const std::int64_t line = 64 / value_bytes;
  return rows * ((cols + line - 1) / line * line) * value_bytes;
}

}  // namespace

ModelMemory::ModelMemory(const Composition& model, const PassRows& rows,
                         std::span<const FeatureView> inputs, MemoryAccount* account)
    : stretches_(stretches_of(model)), views_(model.values().size()) {
  const Order times(model, stretches_, rows.blocks > 1);
  const auto add = [&](Place& place, PassPart part, Span span, std::int64_t value_bytes,
                       bool by_column = false) {
    const bool inference = part == PassPart::inference;
    const std::int64_t count = inference ? rows.most : rows.training;
    const int shift = inference ? times.end : 0;  // Inference and training never meet.
    place.pieces[static_cast<std::size_t>(part)] =
        plan_.add(by_column ? matrix_bytes(place.cols, count, value_bytes)
                            : matrix_bytes(count, place.cols, value_bytes),
                  span.first + shift, span.last + shift);
  };
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

  // What is kept lies side by side: first its size is known, then its place.
  std::int64_t kept_bytes = 0;
  std::vector<std::pair<Saved*, std::int64_t>> kept_at;
  const auto keep = [&](Saved& saved, std::int64_t count, std::int64_t cols) {
    saved = Saved({nullptr, count, cols, padded_stride(cols)});
    kept_at.emplace_back(&saved, kept_bytes);
    kept_bytes += matrix_bytes(count, cols, kFloat);
  };

  values_.resize(model.values().size());
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const Composition::Value& value = model.values()[v];
    ValuePlace& to = values_[v];
    to.place.cols = value.cols;
    if (value.producer < 0) continue;
    Span life{times.forward[index(value.producer)].last, 0};
    for (const int reader : value.readers) life.last = times.forward[index(reader)].last;
    if (value.readers.empty()) life.last = times.end - 1;
    if (value.drops_from != kNoValue) {
      // In inference it is what it drops from.
      const FeatureView& from = inputs[index(value.drops_from)];
      const std::int64_t count = from.is_sparse ? 1 : from.rows();
      const std::int64_t cols = from.is_sparse ? from.sparse.entries : value.cols;
      if (value.kept) {
        keep(to.saved, count, cols);
      } else {
        to.place.pieces[static_cast<std::size_t>(PassPart::forward)] =
            plan_.add(matrix_bytes(count, cols, kFloat), life.first, life.last);
      }
      continue;
    }
    add(to.place, PassPart::inference, life, kFloat);
    if (value.kept) {
      keep(to.saved, rows.training, value.cols);
    } else {
      add(to.place, PassPart::forward, life, kFloat);
    }
    if (!value.has_gradient) continue;
    // Its last reader has the first part.
    const int begun =
        value.readers.empty() ? times.backward.back() : times.backward[index(value.readers.back())];
    const Span whole{begun, times.backward[index(value.producer)]};
    if (value.gradient_in != kNoValue) continue;
    add(to.place, PassPart::backward, whole, kFloat);
    for (std::size_t r = 0; r + 1 < value.readers.size(); ++r) {
      const int at = times.backward[index(value.readers[r])];
      Place part{value.cols};
      add(part, PassPart::backward, {at, at}, kFloat);
      to.parts.emplace_back(value.readers[r], part);
    }
  }
  for (std::size_t v = values_.size(); v-- > 0;) {
    const Composition::Value& value = model.values()[v];
    if (value.gradient_in == kNoValue || !value.has_gradient) continue;
    constexpr auto kBackward = static_cast<std::size_t>(PassPart::backward);
    const int shared = values_[index(value.gradient_in)].place.pieces[kBackward];
    values_[v].place.pieces[kBackward] = shared;
    plan_.extend(shared, times.backward[index(value.producer)]);
  }
  for (const Composition::ScratchMatrix& s : model.scratch()) {
    Place& place = scratch_.emplace_back(Place{s.cols});
    const int at = times.backward[index(s.step)];
    if (s.uses.forward) add(place, PassPart::forward, times.forward[index(s.step)], s.value_bytes);
    if (s.uses.backward) add(place, PassPart::backward, {at, at}, s.value_bytes);
    if (s.uses.inference) {
      add(place, PassPart::inference, times.forward[index(s.step)], s.value_bytes);
    }
  }
  kept_.reserve(model.kept().size());
  for (const Composition::KeptMatrix& k : model.kept()) {
    KeptPlace& to = kept_.emplace_back(KeptPlace{Place{k.cols}, {}, k.by_column});
    add(to.place, PassPart::inference, times.forward[index(k.step)], kFloat, k.by_column);
    keep(to.saved, k.by_column ? k.cols : rows.training, k.by_column ? rows.training : k.cols);
  }

  plan_.lay_out();
  kept_memory_ = Buffer(static_cast<std::size_t>(kept_bytes), MemoryUse::activations, account);
  scratch_memory_ = Buffer(static_cast<std::size_t>(plan_.bytes()), MemoryUse::gradients, account);
  if (kept_memory_.size() == 0) return;
  for (const auto& [saved, begin] : kept_at) {
    MatrixView place = saved->place();
    place.data = reinterpret_cast<float*>(kept_memory_.data() + begin);
    *saved = Saved(place);
  }
}

void ModelMemory::begin(PassPart part, std::int64_t rows) {
  part_ = part;
  rows_ = rows;
}

MatrixView ModelMemory::storage(ValueId v) const {
  const ValuePlace& value = values_[index(v)];
  const bool kept = part_ == PassPart::forward && value.saved.used();
  return kept ? value.saved.place() : matrix(value.place);
}

MatrixView ModelMemory::write(ValueId v) {
  const MatrixView to = storage(v);
  set(v, FeatureView::of(to));
  return to;
}

MatrixView ModelMemory::write_dropped(ValueId v, const FeatureView& input) {
  const MatrixView to = storage(v);
  FeatureView view = input;
  if (input.is_sparse) {
    view.sparse.values = to.data;
  } else {
    view.dense = to;
  }
  set(v, view);
  return to;
}

FeatureView ModelMemory::restore(ValueId v) const {
  const Saved& saved = values_[index(v)].saved;
  const FeatureView& view = views_[index(v)];
  return saved.used() && !view.is_sparse ? FeatureView::of(saved.restore()) : view;
}

MatrixView ModelMemory::keep(Kept k) const {
  const KeptPlace& kept = kept_[index(k.id)];
  if (part_ != PassPart::inference) return kept.saved.place();
  MatrixView to = matrix(kept.place);
  if (kept.by_column) to = {to.data, kept.place.cols, rows_, padded_stride(rows_)};
  return to;
}

MatrixView ModelMemory::gradient_part(ValueId v, int step) const {
  for (const auto& [writer, place] : values_[index(v)].parts) {
    if (writer == step) return matrix(place);
  }
  return gradient(v);
}

void ModelMemory::add_parts(int step, Kernels& kernels) const {
  for (const ValuePlace& value : values_) {
    for (const auto& [writer, place] : value.parts) {
      if (writer == step) kernels.add(matrix(value.place), matrix(place));
    }
  }
}

}  // namespace heliograph
