#include "train/option_values.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "heliograph/error.hpp"

namespace heliograph {
namespace {

constexpr std::string_view file_prefix = "file:";
constexpr std::string_view random_prefix = "random:";

const EnumNames<Partitioner>& partitioner_names() {
  static const EnumNames<Partitioner> names{{"metis", Partitioner::metis},
                                            {"contiguous", Partitioner::contiguous},
                                            {"random", Partitioner::random}};
  return names;
}

}  // namespace

const EnumNames<ModelKind>& model_names() {
  static const EnumNames<ModelKind> names{{"gcn", ModelKind::gcn}, {"sage", ModelKind::sage}};
  return names;
}

const EnumNames<NormLayer>& norm_names() {
  static const EnumNames<NormLayer> names{{"layer", NormLayer::layer}, {"none", NormLayer::none}};
  return names;
}

const EnumNames<RowStorage>& storage_names() {
  static const EnumNames<RowStorage> names{{"fp32", RowStorage::fp32}, {"bf16", RowStorage::bf16}};
  return names;
}

const EnumNames<Schedule>& schedule_names() {
  static const EnumNames<Schedule> names{
      {"constant", Schedule::constant}, {"cosine", Schedule::cosine}, {"step", Schedule::step}};
  return names;
}

const EnumNames<Metric>& metric_names() {
  static const EnumNames<Metric> names{{"auto", Metric::automatic},
                                       {"accuracy", Metric::accuracy},
                                       {"f1", Metric::f1},
                                       {"auc", Metric::auc}};
  return names;
}

const EnumNames<TransportKind>& transport_names() {
  static const EnumNames<TransportKind> names{{"auto", TransportKind::automatic},
                                              {"threads", TransportKind::threads},
                                              {"mpi", TransportKind::mpi},
                                              {"tcp", TransportKind::tcp},
                                              {"nccl", TransportKind::nccl}};
  return names;
}

const EnumNames<DeviceKind>& device_names() {
  static const EnumNames<DeviceKind> names{{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}};
  return names;
}

const EnumNames<Normalization>& normalization_names() {
  static const EnumNames<Normalization> names{{"none", Normalization::none},
                                              {"row", Normalization::row},
                                              {"standard", Normalization::standard}};
  return names;
}

const EnumNames<MetisObjective>& objective_names() {
  static const EnumNames<MetisObjective> names{{"edge_cut", MetisObjective::edge_cut},
                                               {"volume", MetisObjective::volume}};
  return names;
}

const EnumNames<NodeOrder>& order_names() {
  static const EnumNames<NodeOrder> names{{"auto", NodeOrder::automatic},
                                          {"id", NodeOrder::id},
                                          {"random", NodeOrder::random},
                                          {"cluster", NodeOrder::cluster}};
  return names;
}

const EnumNames<CudaGraphs>& cuda_graphs_names() {
  static const EnumNames<CudaGraphs> names{
      {"auto", CudaGraphs::automatic}, {"on", CudaGraphs::on}, {"off", CudaGraphs::off}};
  return names;
}

const EnumNames<Pinning>& pinning_names() {
  static const EnumNames<Pinning> names{
      {"auto", Pinning::automatic}, {"on", Pinning::on}, {"off", Pinning::off}};
  return names;
}

const EnumNames<CudaAwareMpi>& cuda_aware_names() {
  static const EnumNames<CudaAwareMpi> names{
      {"auto", CudaAwareMpi::automatic}, {"on", CudaAwareMpi::on}, {"off", CudaAwareMpi::off}};
  return names;
}

const EnumNames<SaveFailure>& save_failure_names() {
  static const EnumNames<SaveFailure> names{{"continue", SaveFailure::keep_going},
                                            {"stop", SaveFailure::stop}};
  return names;
}

ModelKind parse_model(const std::string& text) {
  if (text == "gat") {
    throw Error(ErrorCode::usage, "--model gat is not built yet; use gcn or sage");
  }
  return parse_choice("model", text, model_names());
}

void check_bits(const std::string& name, int bits) {
  for (const int width : {1, 2, 4, 8, 16, 32}) {
    if (bits == width) return;
  }
  throw Error(ErrorCode::usage,
              fmt::format("--{} must be 1, 2, 4, 8, 16 or 32, not {}", name, bits));
}

int parse_bits(const std::string& name, const std::string& text) {
  const auto bits = static_cast<int>(
      parse_integer(name, text, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
  check_bits(name, bits);
  return bits;
}

std::string partitioner_text(const PartitionOptions& options) {
  if (options.partitioner == Partitioner::file) {
    return std::string(file_prefix) + options.file.string();
  }
  return choice_name(options.partitioner, partitioner_names());
}

void set_partitioner(PartitionOptions& options, const std::string& text) {
  if (text.starts_with(file_prefix)) {
    options.file = text.substr(file_prefix.size());
    if (options.file.empty()) {
      throw Error(ErrorCode::usage, "--partitioner file: needs a path after the colon");
    }
    options.partitioner = Partitioner::file;
    return;
  }
  std::vector<std::string> choices;
  for (const auto& [name, partitioner] : partitioner_names()) {
    if (name == text) {
      options.partitioner = partitioner;
      options.file.clear();
      return;
    }
    choices.push_back(name);
  }
  choices.push_back("file:PATH");
  refuse_choice("partitioner", text, choices);
}

std::string split_text(const TrainOptions& options) {
  if (!options.random_split) return std::to_string(options.split);
  return fmt::format("random:{}/{}/{}", options.train_share, options.validation_share,
                     options.test_share);
}

void set_split(TrainOptions& options, const std::string& text) {
  const auto refuse = [&text] {
    throw Error(ErrorCode::usage,
                fmt::format("--split must be a number from 0 or shares in per cent as in "
                            "random:60/20/20, not \"{}\"",
                            text));
  };
  if (!text.starts_with(random_prefix)) {
    if (text.empty() || text.find_first_not_of("-0123456789") != std::string::npos) refuse();
    options.split = static_cast<int>(parse_integer("split", text, std::numeric_limits<int>::min(),
                                                   std::numeric_limits<int>::max()));
    options.random_split = false;
    return;
  }
  std::vector<double> shares;
  std::size_t begin = random_prefix.size();
  while (true) {
    const std::size_t slash = text.find('/', begin);
    shares.push_back(parse_number("split", text.substr(begin, slash - begin)));
    if (slash == std::string::npos) break;
    begin = slash + 1;
  }
  if (shares.size() != 3) refuse();
  options.random_split = true;
  options.train_share = shares[0];
  options.validation_share = shares[1];
  options.test_share = shares[2];
}

}  // namespace heliograph
