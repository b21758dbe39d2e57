#include "layers/model_memory.hpp"

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

/// The times from the first to the last use of a matrix, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
};

/// The times at which each step of a training pass runs: time t comes before time t + 1.
struct PassTimes {
  // By step: from the first row offered, or awaited, to the last row made.
  std::vector<Lifetime> forward, backward;
  int end = 0;

  PassTimes(const Composition& model, const std::vector<Stretch>& stretches, bool in_blocks) {
    forward.resize(static_cast<std::size_t>(model.steps()));
    for (const Stretch& s : stretches) {
      for (int i = s.first; i < s.end; ++i) {
        Lifetime& times = forward[static_cast<std::size_t>(i)];
        if (!model.gathers(i)) times.first = end;
        times.last = end;
        if (!in_blocks) ++end;  // With blocks, the steps of a stretch take turns: all one time.
      }
      if (s.end < model.steps()) forward[static_cast<std::size_t>(s.end)].first = end;
      ++end;
    }
    backward.resize(forward.size());
    // With blocks, a step's rows may be made as late as the next step that does not work row by row
    // needs them, or at the end.
    const int first = end, steps = model.steps();
    end += steps + 1;
    int needed = end - 1;
    for (int i = 0; i < steps; ++i) {
      const Composition::Backward how = model.backward(i);
      const int at = first + steps - 1 - i;
      const bool late = in_blocks && how != Composition::Backward::at_once;
      backward[static_cast<std::size_t>(i)] = {at, late ? needed : at};
      const bool runs = model.value(model.output(i)).has_gradient;
      if (runs && how != Composition::Backward::row_by_row) needed = at;
    }
  }
};

std::int64_t matrix_bytes(std::int64_t rows, std::int64_t cols, std::int64_t value_bytes) {
  return rows * round_up(cols * value_bytes, static_cast<std::int64_t>(kLineBytes));
}

}  // namespace

ModelMemory::ModelMemory(const Composition& model, const PassRows& rows,
                         std::span<const FeatureView> inputs, MemoryAccount* account)
    : stretches_(stretches_of(model)),
      backward_halo_(rows.backward_halo),
      views_(model.values().size()) {
  const PassTimes times(model, stretches_, rows.blocks > 1);
  const auto add = [&](Region& region, PassPart part, Lifetime life, std::int64_t value_bytes,
                       bool by_column = false, std::int64_t fixed_rows = 0) {
    const bool inference = part == PassPart::inference;
    std::int64_t nodes = inference ? rows.most : rows.training;
    if (region.rows == MatrixRows::all) nodes += inference ? rows.most_halo : rows.training_halo;
    if (region.rows == MatrixRows::backward_halo) nodes = rows.backward_halo;
    const std::int64_t count = fixed_rows > 0 ? fixed_rows : nodes;
    const int shift = inference ? times.end : 0;  // Inference and training never overlap.
    region.pieces[static_cast<std::size_t>(part)] =
        plan_.add(by_column ? matrix_bytes(region.cols, count, value_bytes)
                            : matrix_bytes(count, region.cols, value_bytes),
                  life.first + shift, life.last + shift);
  };
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

  // Saved matrices lie side by side in one buffer, which is made once the sum of sizes is known.
  std::int64_t saved_bytes = 0;
  std::vector<std::pair<MatrixView*, std::int64_t>> saved_at;
  const auto save = [&](MatrixView& saved, std::int64_t count, std::int64_t cols) {
    saved = {nullptr, count, cols, padded_stride(cols)};
    saved_at.emplace_back(&saved, saved_bytes);
    saved_bytes += matrix_bytes(count, cols, kFloat);
  };

  values_.resize(model.values().size());
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const Composition::Value& value = model.values()[v];
    ValueMemory& to = values_[v];
    to.scratch.cols = value.cols;
    if (value.producer < 0) continue;
    Lifetime life{times.forward[index(value.producer)].last, 0};
    for (const int reader : value.readers) life.last = times.forward[index(reader)].last;
    if (value.readers.empty()) life.last = times.end - 1;
    if (value.drops_from != kNoValue) {
      // Inference drops nothing: it reads the input itself.
      const FeatureView& from = inputs[index(value.drops_from)];
      const std::int64_t count = from.is_sparse ? 1 : from.rows();
      const std::int64_t cols = from.is_sparse ? from.sparse.entries : value.cols;
      if (value.saved) {
        save(to.saved.emplace(), count, cols);
      } else {
        to.scratch.pieces[static_cast<std::size_t>(PassPart::forward)] =
            plan_.add(matrix_bytes(count, cols, kFloat), life.first, life.last);
      }
      continue;
    }
    add(to.scratch, PassPart::inference, life, kFloat);
    if (value.saved) {
      save(to.saved.emplace(), rows.training, value.cols);
    } else {
      add(to.scratch, PassPart::forward, life, kFloat);
    }
    if (!value.has_gradient || value.gradient_in != kNoValue) continue;
    // Backward runs the value's last reader first.
    const Lifetime begun =
        value.readers.empty() ? times.backward.back() : times.backward[index(value.readers.back())];
    add(to.scratch, PassPart::backward, {begun.first, times.backward[index(value.producer)].last},
        kFloat);
    for (std::size_t r = 0; r + 1 < value.readers.size(); ++r) {
      Region part{value.cols};
      add(part, PassPart::backward, times.backward[index(value.readers[r])], kFloat);
      to.parts.emplace_back(value.readers[r], part);
    }
  }
  for (std::size_t v = values_.size(); v-- > 0;) {
    const Composition::Value& value = model.values()[v];
    if (value.gradient_in == kNoValue || !value.has_gradient) continue;
    constexpr auto kBackward = static_cast<std::size_t>(PassPart::backward);
    const int shared = values_[index(value.gradient_in)].scratch.pieces[kBackward];
    values_[v].scratch.pieces[kBackward] = shared;
    plan_.extend(shared, times.backward[index(value.producer)].last);
  }
  for (const Composition::ScratchMatrix& s : model.scratch()) {
    Region& region = scratch_.emplace_back(Region{s.cols, s.rows});
    const Lifetime forward = times.forward[index(s.step)];
    if (s.uses.forward) add(region, PassPart::forward, forward, s.value_bytes);
    if (s.uses.backward) {
      add(region, PassPart::backward, times.backward[index(s.step)], s.value_bytes);
    }
    if (s.uses.inference) add(region, PassPart::inference, forward, s.value_bytes);
  }
  saved_.reserve(model.saved().size());
  for (const Composition::SavedMatrix& m : model.saved()) {
    SavedMemory& to = saved_.emplace_back(SavedMemory{Region{m.cols, m.of}, {}, m.by_column});
    to.rows = m.rows;
    add(to.inference, PassPart::inference, times.forward[index(m.step)], kFloat, m.by_column,
        m.rows);
    const std::int64_t nodes = rows.training + (m.of == MatrixRows::all ? rows.training_halo : 0);
    const std::int64_t count = m.rows > 0 ? m.rows : nodes;
    save(to.training, m.by_column ? m.cols : count, m.by_column ? count : m.cols);
  }

  plan_.lay_out();
  saved_memory_ = Buffer(static_cast<std::size_t>(saved_bytes), MemoryUse::activations, account);
  scratch_memory_ = Buffer(static_cast<std::size_t>(plan_.bytes()), MemoryUse::gradients, account);
  if (saved_memory_.size() == 0) return;
  for (const auto& [saved, begin] : saved_at) {
    saved->data = reinterpret_cast<float*>(saved_memory_.data() + begin);
  }
}

void ModelMemory::begin(PassPart part, std::int64_t rows, std::int64_t halo) {
  part_ = part;
  rows_ = rows;
  halo_ = halo;
}

MatrixView ModelMemory::storage(ValueId v) const {
  const ValueMemory& value = values_[index(v)];
  return part_ == PassPart::forward && value.saved ? *value.saved : matrix(value.scratch);
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

FeatureView ModelMemory::saved(ValueId v) const {
  const std::optional<MatrixView>& matrix = values_[index(v)].saved;
  const FeatureView& view = views_[index(v)];
  return matrix && !view.is_sparse ? FeatureView::of(*matrix) : view;
}

MatrixView ModelMemory::saved(Saved s) const {
  const SavedMemory& memory = saved_[index(s.id)];
  if (part_ != PassPart::inference) return memory.training;
  MatrixView to = matrix(memory.inference);
  if (memory.rows > 0) to.rows = memory.rows;
  if (memory.by_column) to = {to.data, memory.inference.cols, rows_, padded_stride(rows_)};
  return to;
}

MatrixView ModelMemory::gradient_part(ValueId v, int step) const {
  for (const auto& [writer, part] : values_[index(v)].parts) {
    if (writer == step) return matrix(part);
  }
  return gradient(v);
}

void ModelMemory::add_parts(int step, RowRange rows, Kernels& kernels) const {
  for (const ValueMemory& value : values_) {
    for (const auto& [writer, part] : value.parts) {
      if (writer == step)
        kernels.add(matrix(value.scratch).row_range(rows), matrix(part).row_range(rows));
    }
  }
}

}  // namespace heliograph
