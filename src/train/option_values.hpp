#pragma once

#include <string>

#include "heliograph/options.hpp"
#include "train/option_fields.hpp"

namespace heliograph {

// How the values of options are spelled on the command line, in config files and in run.json.

const EnumNames<ModelKind>& model_names();
const EnumNames<NormLayer>& norm_names();
const EnumNames<RowStorage>& storage_names();
const EnumNames<Schedule>& schedule_names();
const EnumNames<Metric>& metric_names();
const EnumNames<TransportKind>& transport_names();
const EnumNames<DeviceKind>& device_names();
const EnumNames<Normalization>& normalization_names();
const EnumNames<MetisObjective>& objective_names();
const EnumNames<NodeOrder>& order_names();
const EnumNames<CudaGraphs>& cuda_graphs_names();
const EnumNames<Pinning>& pinning_names();
const EnumNames<CudaAwareMpi>& cuda_aware_names();
const EnumNames<SaveFailure>& save_failure_names();

// All parsers throw Error(usage) that names the flag and the value.

ModelKind parse_model(const std::string& text);

/// 1, 2, 4, 8, 16 or 32.
void check_bits(const std::string& name, int bits);
int parse_bits(const std::string& name, const std::string& text);

/// The value of --partitioner: metis, contiguous, random or file:PATH.
std::string partitioner_text(const PartitionOptions& options);
void set_partitioner(PartitionOptions& options, const std::string& text);

/// The value of --split: N, or random:60/20/20.
std::string split_text(const TrainOptions& options);
void set_split(TrainOptions& options, const std::string& text);

}  // namespace heliograph
