#include "graph/io/forms.hpp"

#include "graph/io/readers.hpp"

namespace heliograph {
namespace {

Dataset read_native(const std::filesystem::path& path, const ImportOptions&, ImportCounts&) {
  return load_native(path);
}

constexpr InputForm kForms[] = {
    {InputFormat::native, "a native directory (manifest.json)", is_native, read_native, true},
    {InputFormat::npz, "a .npz archive", is_npz, read_npz_dataset},
    {InputFormat::musae, "a directory with edges.csv, features.json and target.csv", is_musae,
     read_musae, true},
    {InputFormat::graphsaint,
     "a directory with adj_full.npz, feats.npy, class_map.json and role.json", is_graphsaint,
     read_graphsaint, true},
    {InputFormat::dgl_reddit, "a directory with reddit_graph.npz and reddit_data.npz",
     is_dgl_reddit, read_dgl_reddit, true},
    {InputFormat::ogb, "a directory of the Open Graph Benchmark with raw/ and split/", is_ogb,
     read_ogb, true},
    {InputFormat::edge_list, "a directory with edges.csv or edges.tsv and features.npy",
     is_edge_list, read_edge_list},
    {InputFormat::matrix_market, "a .mtx file or a directory with one", is_matrix_market,
     read_matrix_market},
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
