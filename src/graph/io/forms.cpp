#include "graph/io/forms.hpp"

#include "graph/io/readers.hpp"

namespace heliograph {
namespace {

Dataset read_native(const std::filesystem::path& path, const ImportOptions&, ImportCounts&) {
  return load_native(path);
}

const InputForm kForms[] = {
    {InputFormat::native,
     "a native directory (manifest.json)",
     is_native,
     read_native,
     {"manifest.json"}},
    {InputFormat::npz, "a .npz archive", is_npz, read_npz_dataset},
    {InputFormat::musae,
     "a directory with edges.csv, features.json and target.csv",
     is_musae,
     read_musae,
     {"edges.csv", "features.json", "target.csv"},
     true},
    {InputFormat::graphsaint,
     nullptr,
     is_graphsaint,
     read_graphsaint,
     {"adj_full.npz", "feats.npy", "class_map.json", "role.json"}},
    {InputFormat::dgl_reddit,
     nullptr,
     is_dgl_reddit,
     read_dgl_reddit,
     {"reddit_graph.npz", "reddit_data.npz"}},
    {InputFormat::ogb,
     "a directory of the Open Graph Benchmark with raw/ and split/",
     is_ogb,
     read_ogb,
     {"edge.csv.gz", "data.npz"}},
    {InputFormat::graphland,
     nullptr,
     is_graphland,
     read_graphland,
     {"features.csv", "targets.csv", "edgelist.csv", "info.yaml"}},
    {InputFormat::edge_list, "a directory with edges.csv or edges.tsv and features.npy",
     is_edge_list, read_edge_list},
    {InputFormat::matrix_market, "a .mtx file or a directory with one", is_matrix_market,
     read_matrix_market},
    {InputFormat::facebook100,
     "a .mat file of Facebook100",
     is_facebook100,
     read_facebook100,
     {},
     true},
    {InputFormat::metis, "a .graph file of METIS or a directory with one", is_metis, read_metis},
    // Last, as other directories may have a data.json too.
    {InputFormat::wikics,
     "a directory with data.json of Wiki-CS",
     is_wikics,
     read_wikics,
     {"data.json"}},
};

}  // namespace

std::span<const InputForm> input_forms() { return kForms; }

const InputForm* form_of(const std::filesystem::path& path) {
  for (const InputForm& form : kForms) {
    if (form.recognises(path)) return &form;
  }
  return nullptr;
}

}  // namespace heliograph
