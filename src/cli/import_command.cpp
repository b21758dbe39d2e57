#include <fmt/format.h>

#include <cstdio>

#include "cli/command.hpp"
#include "cli/data_options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"

namespace heliograph::cli {
namespace {

struct ImportRequest {
  DataOptions input;
  std::string out;
  bool overwrite = false;
};

std::vector<OptionField<ImportRequest>> import_fields() {
  FieldTable<ImportRequest> fields;
  fields.add_part(input_fields(), HELIOGRAPH_MEMBER(input));
  fields.group("Results");
  fields.add("out", "DIR",
             "The native graph directory to write. Without it, the data set is only checked and "
             "described.",
             HELIOGRAPH_MEMBER(out));
  fields.add("overwrite", "Replace --out if it exists.", HELIOGRAPH_MEMBER(overwrite));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(input));
  return fields.take();
}

std::string counts_table(const ImportCounts& counts, const Graph& graph) {
  const bool directed = graph.directed;
  const auto row = [](const char* what, std::int64_t count, const char* policy) {
    return std::pair<std::string, std::string>(
        what, fmt::format("{:>14}  {}", with_commas(count), policy));
  };
  std::vector<std::pair<std::string, std::string>> rows = {
      row("nodes", counts.nodes, ""),
      row("edges listed", counts.edges_listed, "as in the input"),
      row("self-loops", counts.self_loops, "dropped; models add their own"),
      row("duplicates", counts.duplicates,
          directed ? "dropped" : "dropped; a listing in reverse counts as one"),
      row("entries kept", counts.entries,
          directed ? "each edge one way" : "each edge in both directions"),
      row("isolated nodes", counts.isolated, "kept"),
      row("unlabelled", counts.unlabelled, "kept, in no split"),
  };
  if (!graph.edge_weights.empty()) {
    rows.emplace_back("edge weights",
                      fmt::format("from {} to {}", counts.least_weight, counts.most_weight));
  }
  return two_columns(rows);
}

int run_import(const Arguments<ImportRequest>& arguments) {
  ImportRequest request;
  arguments.apply(request);
  require_text(request.input.data, "data", "the path of a data set");
  refuse_shards(request.input);
  refuse_flags_of_edge_lists(request.input, arguments.given());
  if (request.overwrite && request.out.empty()) {
    throw Error(ErrorCode::usage, "--overwrite needs --out");
  }
  if (!request.out.empty()) check_native_target(request.out, request.overwrite);
  Progress progress(0, request.input.quiet, request.input.log_level);
  ImportCounts counts;
  const Dataset dataset = load(request.input, progress, &counts);
  if (!request.out.empty()) {
    progress.phase("writing " + request.out);
    save_native(dataset, request.out, request.overwrite);
  }
  progress.finish();
  if (request.input.quiet) return 0;
  const std::string text =
      describe(dataset) + "\n" + counts_table(counts, dataset.graph) +
      two_columns({{"splits", std::to_string(dataset.splits.size())},
                   {"hash", dataset_hash(dataset)},
                   {"written to", request.out.empty() ? "nothing: give --out" : request.out}});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

Command import_command() {
  return with_fields<ImportRequest>(
      {"import",
       "Convert a data set to a native graph directory, which is checked and loads quickly.",
       " --data PATH [--out DIR] [options]",
       "Examples:\n"
       "  heliograph import --data cora.npz --out graphs/cora\n"
       "  heliograph import --data my_graph/ --format edge-list --index-base 0 --out "
       "graphs/mine"},
      import_fields(), run_import);
}

}  // namespace heliograph::cli
