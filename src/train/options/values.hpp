#pragma once

#include <string>

#include "graph/task_name.hpp"
#include "heliograph/generate.hpp"
#include "heliograph/io.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"
#include "train/options/parse.hpp"

namespace heliograph {

// How values of options are spelled on the command line, in config files and in run.json.

template <>
inline constexpr EnumName<ModelKind> enum_names<ModelKind>[] {
  {"gcn", ModelKind::gcn}, {"sage", ModelKind::sage}, {"gin", ModelKind::gin},
      {"appnp", ModelKind::appnp}, {"dagnn", ModelKind::dagnn}, {"jknet", ModelKind::jknet},
      {"gcnii", ModelKind::gcnii}, {"gat", ModelKind::gat}, {"gat-sep", ModelKind::gat_sep}, {
    "gatv2", ModelKind::gatv2
  }
};
template <>
inline constexpr EnumName<NormLayer> enum_names<NormLayer>[] {
  {"auto", NormLayer::automatic}, {"layer", NormLayer::layer}, {"batch", NormLayer::batch}, {
    "none", NormLayer::none
  }
};
template <>
inline constexpr EnumName<ActivationFunction> enum_names<ActivationFunction>[] {
  {"relu", ActivationFunction::relu}, {"gelu", ActivationFunction::gelu}, {
    "elu", ActivationFunction::elu
  }
};
template <>
inline constexpr EnumName<Residual> enum_names<Residual>[] {
  {"none", Residual::none}, {"identity", Residual::identity}, { "linear", Residual::linear }
};
template <>
inline constexpr EnumName<JumpingKnowledge> enum_names<JumpingKnowledge>[] {
  {"none", JumpingKnowledge::none}, {"concat", JumpingKnowledge::concat},
      {"max", JumpingKnowledge::max}, {
    "sum", JumpingKnowledge::sum
  }
};
template <>
inline constexpr EnumName<RowStorage> enum_names<RowStorage>[] {
  {"fp32", RowStorage::fp32}, { "bf16", RowStorage::bf16 }
};
template <>
inline constexpr EnumName<ExchangedRows> enum_names<ExchangedRows>[] {
  {"auto", ExchangedRows::automatic}, {"boundary", ExchangedRows::boundary}, {
    "cover", ExchangedRows::cover
  }
};
template <>
inline constexpr EnumName<BitsPolicy> enum_names<BitsPolicy>[] {
  {"uniform", BitsPolicy::uniform}, {"degree", BitsPolicy::degree}, {"trend", BitsPolicy::trend}, {
    "degree-trend", BitsPolicy::degree_trend
  }
};
template <>
inline constexpr EnumName<Schedule> enum_names<Schedule>[] {
  {"constant", Schedule::constant}, {"cosine", Schedule::cosine}, { "step", Schedule::step }
};
template <>
inline constexpr EnumName<Metric> enum_names<Metric>[] {
  {"auto", Metric::automatic}, {"accuracy", Metric::accuracy}, {"f1", Metric::f1},
      {"auc", Metric::auc}, {"macro-f1", Metric::macro_f1}, {"ap", Metric::average_precision},
      {"r2", Metric::r2}, {"rmse", Metric::rmse},
};
template <>
inline constexpr EnumName<Task> enum_names<Task>[] {
  {task_name(Task::multiclass), Task::multiclass}, {task_name(Task::multilabel), Task::multilabel},
  {
    task_name(Task::regression), Task::regression
  }
};
template <>
inline constexpr EnumName<OptimizerKind> enum_names<OptimizerKind>[] {
  {"adam", OptimizerKind::adam}, { "adamw", OptimizerKind::adamw }
};
template <>
inline constexpr EnumName<ClassWeights> enum_names<ClassWeights>[] {
  {"none", ClassWeights::none}, { "balanced", ClassWeights::balanced }
};
template <>
inline constexpr EnumName<TransportKind> enum_names<TransportKind>[] {
  {"auto", TransportKind::automatic}, {"threads", TransportKind::threads},
      {"mpi", TransportKind::mpi}, {"tcp", TransportKind::tcp}, {
    "nccl", TransportKind::nccl
  }
};
template <>
inline constexpr EnumName<DeviceKind> enum_names<DeviceKind>[] {
  {"cpu", DeviceKind::cpu}, { "cuda", DeviceKind::cuda }
};
template <>
inline constexpr EnumName<Normalization> enum_names<Normalization>[] {
  {"none", Normalization::none}, {"row", Normalization::row}, {
    "standard", Normalization::standard
  }
};
/// Partitioner::file is not here: it is spelled file:PATH.
template <>
inline constexpr EnumName<Partitioner> enum_names<Partitioner>[] {
  {"metis", Partitioner::metis}, {"contiguous", Partitioner::contiguous}, {
    "random", Partitioner::random
  }
};
template <>
inline constexpr EnumName<MetisObjective> enum_names<MetisObjective>[] {
  {"edge_cut", MetisObjective::edge_cut}, { "volume", MetisObjective::volume }
};
template <>
inline constexpr EnumName<NodeOrder> enum_names<NodeOrder>[] {
  {"auto", NodeOrder::automatic}, {"id", NodeOrder::id}, {"random", NodeOrder::random}, {
    "cluster", NodeOrder::cluster
  }
};
template <>
inline constexpr EnumName<CudaGraphs> enum_names<CudaGraphs>[] {
  {"auto", CudaGraphs::automatic}, {"on", CudaGraphs::on}, { "off", CudaGraphs::off }
};
template <>
inline constexpr EnumName<Pinning> enum_names<Pinning>[] {
  {"auto", Pinning::automatic}, {"on", Pinning::on}, { "off", Pinning::off }
};
template <>
inline constexpr EnumName<CudaAwareMpi> enum_names<CudaAwareMpi>[] {
  {"auto", CudaAwareMpi::automatic}, {"on", CudaAwareMpi::on}, { "off", CudaAwareMpi::off }
};
template <>
inline constexpr EnumName<SaveFailure> enum_names<SaveFailure>[] {
  {"continue", SaveFailure::keep_going}, { "stop", SaveFailure::stop }
};
template <>
inline constexpr EnumName<InputFormat> enum_names<InputFormat>[] {
  {"auto", InputFormat::automatic}, {"native", InputFormat::native}, {"npz", InputFormat::npz},
      {"musae", InputFormat::musae}, {"graphsaint", InputFormat::graphsaint},
      {"dgl-reddit", InputFormat::dgl_reddit}, {"ogb", InputFormat::ogb},
      {"graphland", InputFormat::graphland}, {"wikics", InputFormat::wikics},
      {"edge-list", InputFormat::edge_list}, {"matrix-market", InputFormat::matrix_market},
      {"facebook100", InputFormat::facebook100}, {
    "metis", InputFormat::metis
  }
};
template <>
inline constexpr EnumName<LogLevel> enum_names<LogLevel>[] {
  {"debug", LogLevel::debug}, {"info", LogLevel::info}, {"warning", LogLevel::warning}, {
    "error", LogLevel::error
  }
};
template <>
inline constexpr EnumName<GraphModel> enum_names<GraphModel>[] {
  {"block", GraphModel::block}, { "rmat", GraphModel::rmat }
};

// These parsers throw Error(usage) that names the flag and the value.

/// Throws Error(usage) unless `bits` is 1, 2, 4, 8, 16 or 32 and at least `fewest`.
void check_bits(const std::string& name, int bits, Bits fewest = Bits::one);
Bits parse_bits(const std::string& name, const std::string& text, Bits fewest = Bits::one);

/// The value of --partitioner as text: metis, contiguous, random or file:PATH.
std::string partitioner_text(const PartitionOptions& options);
void set_partitioner(PartitionOptions& options, const std::string& text);

/// Parses the value of --split. A seed that `split` has is kept.
void set_split(SplitChoice& split, const std::string& text);
/// The seed of a split that is drawn at random; null if `split` is not.
const std::uint64_t* split_seed(const SplitChoice& split);
/// Throws Error(usage) if `split` is not drawn at random.
void set_split_seed(SplitChoice& split, std::uint64_t seed);

}  // namespace heliograph
