#include "graph/io/published.hpp"

#include <fmt/format.h>

namespace heliograph {
namespace {

struct Published {
  InputFormat format;
  const char* name;
  std::int64_t nodes, edges;
};

// As the documentation of PyTorch Geometric, DGL and the Open Graph Benchmark and, for Penn94, Lim
// et al. (2021) state them.
constexpr Published kPublished[] = {
    {InputFormat::dgl_reddit, "Reddit", 232'965, 114'615'892},
    {InputFormat::ogb, "ogbn-products", 2'449'029, 61'859'140},
    {InputFormat::ogb, "ogbn-proteins", 132'534, 39'561'252},
    {InputFormat::ogb, "ogbn-arxiv", 169'343, 1'166'243},
    {InputFormat::ogb, "ogbn-papers100M", 111'059'956, 1'615'685'872},
    {InputFormat::graphsaint, "Reddit", 232'965, 23'213'838},
    {InputFormat::graphsaint, "Flickr", 89'250, 899'756},
    {InputFormat::graphsaint, "Yelp", 716'847, 13'954'819},
    {InputFormat::graphsaint, "AmazonProducts", 1'569'960, 264'339'468},
    {InputFormat::facebook100, "Penn94", 41'554, 2'724'458},
};

}  // namespace

void compare_with_published(InputFormat format, const ImportCounts& counts,
                            const LogCallback& log) {
  if (!log) return;
  for (const Published& one : kPublished) {
    if (one.format != format || one.nodes != counts.nodes) continue;
    const bool same = one.edges == counts.edges_listed;
    log(same ? LogLevel::info : LogLevel::warning,
        fmt::format("as many nodes as {}, which was published with {} entries; the file lists {}",
                    one.name, one.edges, same ? "as many" : std::to_string(counts.edges_listed)));
  }
}

}  // namespace heliograph
