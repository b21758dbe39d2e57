#include "graph/io/published.hpp"

#include <fmt/format.h>

namespace heliograph {
namespace {

struct Published {
  InputFormat format;
  const char* name;
  std::int64_t nodes, edges;
  bool both_ways =
      false;  ///< Whether `edges` has both directions of each edge, not what is listed.
};

// As the documentation of PyTorch Geometric, DGL and the Open Graph Benchmark and, for Penn94, Lim
// et al. (2021) state them. Wiki-CS: its authors' answer about the number of links in data.json.
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
    {InputFormat::wikics, "Wiki-CS", 11'701, 297'110},
    {InputFormat::npz, "Amazon Computers", 13'752, 491'722, true},
    {InputFormat::npz, "Amazon Photo", 7'650, 238'162, true},
    {InputFormat::npz, "Coauthor CS", 18'333, 163'788, true},
    {InputFormat::npz, "Coauthor Physics", 34'493, 495'924, true},
    {InputFormat::npz, "Roman-empire", 22'662, 65'854, true},
    {InputFormat::npz, "Amazon-ratings", 24'492, 186'100, true},
    {InputFormat::npz, "Tolokers", 11'758, 1'038'000, true},
    {InputFormat::npz, "Questions", 48'921, 307'080, true},
    {InputFormat::graphland, "hm-categories and hm-prices", 46'563, 21'461'990, true},
    {InputFormat::graphland, "pokec-regions", 1'632'803, 30'622'564},
    {InputFormat::graphland, "web-topics, web-fraud and web-traffic", 2'890'331, 12'895'369},
    {InputFormat::graphland, "tolokers-2", 11'758, 1'038'000, true},
    {InputFormat::graphland, "city-reviews", 148'801, 2'330'830, true},
    {InputFormat::graphland, "artnet-exp and artnet-views", 50'405, 560'696, true},
    {InputFormat::graphland, "avazu-ctr", 76'269, 21'968'154, true},
    {InputFormat::graphland, "city-roads-M", 57'073, 132'571},
    {InputFormat::graphland, "city-roads-L", 142'257, 279'062},
    {InputFormat::graphland, "twitch-views", 168'114, 13'595'114, true},
};

}  // namespace

void compare_with_published(InputFormat format, const ImportCounts& counts,
                            const ImportOptions& options) {
  if (!options.log) return;
  for (const Published& one : kPublished) {
    if (one.format != format || one.nodes != counts.nodes) continue;
    if (one.both_ways && options.keep_direction) continue;  // Then entries have one direction.
    const std::int64_t edges = one.both_ways ? counts.entries : counts.edges_listed;
    const bool same = one.edges == edges;
    options.log(same ? LogLevel::info : LogLevel::warning,
                fmt::format("as many nodes as {}, which was published with {} entries; the {} {}",
                            one.name, one.edges, one.both_ways ? "graph has" : "file lists",
                            same ? "as many" : std::to_string(edges)));
  }
}

}  // namespace heliograph
