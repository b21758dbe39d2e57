#pragma once

#include <string>

#include "cli/train_request.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/train.hpp"

namespace heliograph::cli {

/// One line: model, ranks, bits, staleness, epochs.
std::string describe_run(const TrainRequest& request);

/// What a user reads after the run; `files` names what was written.
std::string result_block(const TrainRequest& request, const TrainResult& result,
                         const std::string& files);

/// The first members of run.json: options, versions, machine, data set.
nlohmann::ordered_json run_manifest(const TrainRequest& request, nlohmann::ordered_json dataset,
                                    const std::vector<std::string>& words);

}  // namespace heliograph::cli
