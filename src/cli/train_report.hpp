#pragma once

#include <string>

#include "cli/train_request.hpp"
#include "heliograph/train.hpp"

namespace heliograph::cli {

/// "synchronous", or the largest age of rows and which sites have it.
std::string staleness_text(const ExchangeOptions& exchange);

/// One line of model, epochs, ranks, bits and staleness.
std::string describe_run(const TrainRequest& request);

/// The lines that are printed after a run. `files`: the names of what it wrote, may be empty.
std::string result_block(const TrainRequest& request, const TrainResult& result,
                         const std::string& files);

/// The members of run.json that are known before the run: options, version, machine, data set.
/// `words`: the arguments of the command.
nlohmann::ordered_json run_manifest(const TrainRequest& request, nlohmann::ordered_json dataset,
                                    const std::vector<std::string>& words);

}  // namespace heliograph::cli
