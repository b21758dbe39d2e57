"""The house rules. Each check returns a list of sentences, one for each violation, or a `Skip`.

`PLANTS` holds, for each check, violations that the self-test plants in a small clean tree:
(path, contents, words that the complaint must hold).
"""

import collections
import json
import os
import re
import shutil
import subprocess

from tree import code_files, includes, project_files, read, room_of

Skip = collections.namedtuple("Skip", "reason")

# Who may include whom (docs/architecture.md). The public headers know only each other.
ALLOWED = {
    "public": {"public"},
    "core": {"public", "core"},
    "graph": {"public", "core", "graph"},
    "quant": {"public", "core", "quant"},
    "comm": {"public", "core", "graph", "quant", "comm"},
    "staleness": {"public", "core", "graph", "quant", "comm", "staleness"},
    "layers": {"public", "core", "graph", "layers"},
    "train": {"public", "core", "graph", "quant", "comm", "staleness", "layers", "train"},
    "cli": {"public", "train", "cli"},
}
# The folders of a room, lowest first: a file in one may include those before it.
FOLDERS = {
    "graph": ["io", "generate", "partition"],
    "comm": ["exchange", "rendezvous", "watch", "processes", "threads", "tcp", "mpi", "nccl"],
    "train": ["options", "metrics", "run", "plan", "checkpoint"],
}
STANDARD = re.compile(r"[a-z_0-9]+")  # A header of C++'s standard library has no dot and no slash.

# Package: (pattern of its headers, folders that may include it, most files that may).
PACKAGES = {
    "METIS": (r"metis\.h", ("src/graph/",), 1),
    "MPI": (r"mpi\.h", ("src/comm/",), 2),  # Tests replace the smaller.
    "libsodium": (r"sodium\.h", ("src/comm/",), 1),
    "NCCL": (r"nccl\.h", ("src/comm/",), 1),
    "Eigen": (r"(unsupported/)?Eigen/.*", ("src/core/cpu/",), None),
    "cuBLAS and cuSPARSE": (r"(cublas|cusparse).*", ("src/core/cuda/",), None),
    "CLI11": (r"CLI/.*", ("src/cli/",), None),
    "JSON": (r"nlohmann/.*", ("src/graph/", "src/train/", "src/cli/"), None),
}

SAID = re.compile(r"\b(std::cout|std::cerr|std::clog|fmt::print|printf|fprintf|puts|fputs|perror|"
                  r"exit|_exit|quick_exit|std::abort|std::terminate)\b\s*(\(|<<)")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
# Definitions of types outside of others, and all names that a file gives to types.
TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)[^;(]*?\{", re.MULTILINE)
USED_TYPE = re.compile(r"\b(\w+)\b(?!\s*\(|\))")  # A name before a bracket may be a function's.
USES_JSON = re.compile(r"\bnlohmann::|\w_json\(")
NAMESPACE_ALIAS = re.compile(r"\bnamespace (\w+) = ")
NAMED_TYPE = re.compile(r"\b(?:class|struct|typename|using)(?:\.\.\.)? (\w+)")
MOST_GROUPS = 9  # Of a regular expression of CMake's.
# What libstdc++ 12 defines by std::ranges::subrange or views, which Clang 14 cannot compile.
RANGES = re.compile(r"\bstd::(views::\w+|ranges::(?:unique|remove|remove_if|(?:stable_)?partition|"
                    r"rotate|search|search_n|equal_range|find_end|subrange|\w+_view))\b")
MACHINE_PATH = re.compile(r"(?<![A-Za-z0-9_.])/(home|root|work|farm|Users)/")


def folder_rank(name):
    """The place of "comm/tcp/links.hpp" among the folders of its room; None outside of them."""
    room, *folders, _ = name.split("/")
    order = FOLDERS.get(room, [])
    return order.index(folders[0]) if folders and folders[0] in order else None


def include_direction(root, **_):
    """Rooms and folders include only those below; public headers only each other and the standard."""
    wrong = []
    for path in code_files(root, "include", "src"):
        room = room_of(path)
        if room not in ALLOWED:
            wrong.append(f"{path}: lies in no known room")
            continue
        folders = path.split("/")[2:-1]
        if room in FOLDERS and folders and folders[0] not in FOLDERS[room]:
            wrong.append(f"{path}: its folder has no place in the order of {room}'s folders")
        for line, name, quoted in includes(root, path):
            first = name.split("/", 1)[0]
            if quoted or first == "heliograph" or first in ALLOWED:
                target = "public" if first == "heliograph" else first
                if "/" not in name or target not in ALLOWED:
                    wrong.append(f'{path}:{line}: "{name}" is not named by its room')
                elif target not in ALLOWED[room]:
                    wrong.append(f"{path}:{line}: {room} may not include {target} ({name})")
                elif target == room and room in FOLDERS:
                    own, theirs = folder_rank(path[len("src/"):]), folder_rank(name)
                    if own is not None and theirs is not None and theirs > own:
                        wrong.append(f"{path}:{line}: its folder may not include {name}")
            elif room == "public" and not STANDARD.fullmatch(name):
                wrong.append(f"{path}:{line}: a public header includes <{name}>, which is not of "
                             "the standard library")
    for path in code_files(root, "examples"):
        for line, name, quoted in includes(root, path):
            if quoted and not name.startswith("heliograph/"):
                wrong.append(f"{path}:{line}: an example includes {name}, which is not installed")
    return wrong


def one_room_packages(root, **_):
    """Each package is included in its one room; METIS, NCCL and libsodium in one .cpp, MPI in two."""
    wrong = []
    for package, (pattern, folders, most) in PACKAGES.items():
        users = []
        for path in code_files(root, "include", "src", "examples"):
            lines = [line for line, name, _ in includes(root, path) if re.fullmatch(pattern, name)]
            if not lines:
                continue
            users.append(path)
            if not path.startswith(folders):
                wrong.append(f"{path}:{lines[0]}: {package} belongs in {' or '.join(folders)}")
            if most and not path.endswith(".cpp"):
                wrong.append(f"{path}:{lines[0]}: {package} belongs in a .cpp, not in a header")
        if most and len(users) > most:
            wrong.append(f"{package} is included by {len(users)} files: {', '.join(users)}")
    return wrong


def quiet_library(root, **_):
    """Library code neither prints nor ends the process; the command may."""
    wrong = []
    for path in code_files(root, "include", "src"):
        if room_of(path) == "cli":
            continue
        text = COMMENT.sub(lambda m: "\n" * m[0].count("\n"), read(root, path) or "")
        for match in SAID.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            wrong.append(f"{path}:{line}: library code calls {match[1]}")
    return wrong


def fuzz_compiler(root, **_):
    """Clang 14, which builds the fuzz targets, can compile what the code takes from std::ranges."""
    return [f"{path}: Clang 14 cannot compile std::{match[1]} of libstdc++ 12"
            for path in code_files(root, "include", "src", "tests/fuzz")
            for match in RANGES.finditer(read(root, path) or "")]


def machine_paths(root, **_):
    """No file names a folder of a particular machine."""
    wrong = []
    for path in project_files(root):
        for number, line in enumerate((read(root, path) or "").split("\n"), 1):
            if MACHINE_PATH.search(line):
                wrong.append(f"{path}:{number}: a path of a machine: {line.strip()[:80]}")
    return wrong


def test_filters(root, **_):
    """CTest can compile the filters of presets. Of one that it cannot, it says so and runs every test."""
    presets = json.loads(read(root, "CMakePresets.json"))
    wrong = []
    for preset in presets.get("testPresets", []):
        for chosen in preset.get("filter", {}).values():
            groups = len(re.findall(r"(?<!\\)\(", chosen.get("name", "")))
            if groups > MOST_GROUPS:
                wrong.append(f"CMakePresets.json: the filter of {preset['name']} has {groups} groups; "
                             f"CTest takes {MOST_GROUPS}")
    return wrong


def clang_format(root, **_):
    """The code is as clang-format 14 (Debian 12's) leaves it."""
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        return Skip("clang-format is not installed")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    if not re.search(r"version 14\.", version):
        return Skip(f"another version than 14 is installed: {version.strip()}")
    files = code_files(root, "include", "src", "tests", "bench", "examples")
    if not files:
        return []
    done = subprocess.run([tool, "--dry-run", "-Werror", "--style=file"] + files, cwd=root,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    seen = re.findall(r"^(\S+?):(\d+):\d+: error: .*clang-format", done.stderr, re.MULTILINE)
    first = dict(reversed(seen))
    return [f"{path}:{first[path]}: clang-format would change this file" for path in first] or [
        f"clang-format failed: {done.stderr.strip()[:400]}"]


def public_headers(root, compiler="c++", **_):
    """Each public header compiles alone and when it is included twice, with only the public folder."""
    wrong = []
    for path in code_files(root, "include"):
        name = path.split("/", 1)[1]
        done = subprocess.run(
            [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
             "-I", os.path.join(root, "include"), "-x", "c++", "-"],
            input=f'#include "{name}"\n#include "{name}"\n', capture_output=True, text=True,
            check=False)
        if done.returncode != 0:
            error = next((line for line in done.stderr.split("\n") if "error" in line),
                         done.stderr.strip())
            wrong.append(f"{path}: does not compile alone: {error}")
    return wrong


def includes_what_it_names(root, **_):
    """A file includes, itself or through its headers, one that defines each type and each short name
    of a namespace that it names, and JSON's definition if it uses more than its name. The batches of a
    unity build hide a missing include."""
    files = code_files(root, "include", "src", "tests")
    code = {path: STRING.sub('""', COMMENT.sub("", read(root, path) or "")) for path in files}
    path_of = {}
    for path in files:  # Where two rooms have the name, src includes its own.
        path_of.setdefault(path.split("/", 1)[1], path)
    included = {path: [path_of[name] for _, name, _ in includes(root, path) if name in path_of]
                for path in files}
    homes = {}
    for path in files:
        if path.endswith((".hpp", ".cuh")) and not path.startswith("tests/"):
            for match in TYPE.finditer(code[path]):
                homes.setdefault(match[1], []).append(path)
    aliases = {name for text in code.values() for name in NAMESPACE_ALIAS.findall(text)}
    wrong = []
    for path in files:
        reached, ahead = set(), [path]
        while ahead:
            at = ahead.pop()
            if at not in reached:
                reached.add(at)
                ahead += included[at]
        known = {m[1] for at in reached for m in NAMED_TYPE.finditer(code[at])}
        used = set() if path.startswith("tests/") else set(USED_TYPE.findall(code[path]))
        for name in sorted((used & homes.keys()) - known):
            wrong.append(f"{path}: names {name} without including {' or '.join(homes[name])}")
        if not path.endswith((".cpp", ".cu")):
            continue
        defined = {name for at in reached for name in NAMESPACE_ALIAS.findall(code[at])}
        for name in sorted(aliases - defined):
            if re.search(rf"(?<![:\w]){name}::", code[path]):
                wrong.append(f"{path}: names {name}:: without 'namespace {name} ='")
        packages = {name for at in reached for _, name, _ in includes(root, at)}
        if (USES_JSON.search(code[path]) and "nlohmann/json_fwd.hpp" in packages
                and "nlohmann/json.hpp" not in packages):
            wrong.append(f"{path}: uses JSON without including nlohmann/json.hpp")
    return wrong


CHECKS = {check.__name__: check for check in (
    include_direction, includes_what_it_names, one_room_packages, quiet_library, fuzz_compiler,
    machine_paths, test_filters, clang_format, public_headers)}

# A tree in which nothing is wrong.
CLEAN = {
    ".clang-format": "BasedOnStyle: Google\n",
    "CMakePresets.json": '{"testPresets": [{"name": "tsan", "filter": {"include": {}}}]}\n',
    "include/heliograph/a.hpp": "#pragma once\n#include <vector>\nstd::vector<int> a();\n",
    "include/heliograph/b.hpp": '#pragma once\n#include "heliograph/a.hpp"\n',
    "src/core/cpu/gemm.cpp": '#include <Eigen/Core>\n\n#include "heliograph/a.hpp"\n',
    "src/core/csr.hpp": "#pragma once\nstruct Csr {\n  int rows;\n};\n",
    "src/layers/gcn.hpp": '#pragma once\n#include "core/csr.hpp"\nint rows(Csr& csr);\n',
    "src/layers/rows.cpp": '#include "layers/gcn.hpp"\nint rows(Csr& csr) { return csr.rows; }\n',
    "src/graph/metis.cpp": '#include <metis.h>\n\n#include "core/csr.hpp"\n'
                           "namespace fs = std::filesystem;\n",
    "src/layers/gcn.cpp": '#include "core/csr.hpp"\n#include "graph/shard.hpp"\n',
    "src/train/run.cpp": '// exit(1) belongs in main\n#include "layers/gcn.hpp"\n',
    "src/cli/main.cpp": '#include <CLI/CLI.hpp>\n\n#include "train/run.hpp"\nint main() { exit(0); }\n',
    "docs/data.md": "Data lie beside the project, in ../data, not in a build/home/ of its own.\n",
}

PLANTS = {
    "include_direction": [
        ("src/core/up.cpp", '#include "graph/shard.hpp"\n', "core may not include graph"),
        ("src/graph/side.cpp", '#include "quant/codec.hpp"\n', "graph may not include quant"),
        ("src/quant/side.cpp", '#include "graph/shard.hpp"\n', "quant may not include graph"),
        ("src/comm/up.cpp", '#include "staleness/lag.hpp"\n', "comm may not include staleness"),
        ("src/staleness/up.cpp", '#include "train/run.hpp"\n', "staleness may not include train"),
        ("src/layers/comm.cpp", '#include "comm/communicator.hpp"\n', "layers may not include comm"),
        ("src/layers/codec.hpp", '#include "quant/codec.hpp"\n', "layers may not include quant"),
        ("src/layers/late.cpp", '#  include "staleness/lag.hpp"\n', "may not include staleness"),
        ("src/train/up.cpp", '#include "cli/options.hpp"\n', "train may not include cli"),
        ("src/cli/down.cpp", "#include <core/csr.hpp>\n", "cli may not include core"),
        ("src/graph/bare.cpp", '#include "shard.hpp"\n', "not named by its room"),
        ("src/comm/watch/up.cpp", '#include "comm/tcp/links.hpp"\n', "its folder may not include"),
        ("src/comm/attic/x.cpp", "int x;\n", "its folder has no place in the order"),
        ("src/attic/x.cpp", "int x;\n", "no known room"),
        ("include/heliograph/c.hpp", '#include "core/csr.hpp"\n', "public may not include core"),
        ("include/heliograph/d.hpp", "#include <nlohmann/json.hpp>\n", "standard library"),
        ("include/heliograph/e.hpp", "#include <metis.h>\n", "standard library"),
        ("examples/embed/main.cpp", '#include "core/csr.hpp"\n', "not installed"),
    ],
    "includes_what_it_names": [
        ("src/core/cpu/lone.cpp", "int f(Csr& c) { return c.rows; }\n", "names Csr without"),
        ("src/graph/shard.hpp", "struct Shard {\n  Csr* csr;\n};\n", "names Csr without"),
        ("tests/cli/a_test.cpp", "fs::path a;\n", "names fs:: without"),
        ("src/train/json.cpp", "#include <nlohmann/json_fwd.hpp>\nauto a = to_json(b);\n",
         "uses JSON without"),
    ],
    "one_room_packages": [
        ("src/graph/second.cpp", "#include <metis.h>\n", "included by 2 files"),
        ("src/graph/metis.hpp", "#include <metis.h>\n", "not in a header"),
        ("src/train/cut.cpp", "#include <metis.h>\n", "belongs in src/graph/"),
        ("src/layers/gemm.cpp", "#include <Eigen/Dense>\n", "Eigen belongs in src/core/cpu/"),
        ("src/train/flags.cpp", "#include <CLI/CLI.hpp>\n", "CLI11 belongs in src/cli/"),
        ("src/quant/config.cpp", "#include <nlohmann/json.hpp>\n", "JSON belongs in"),
        ("src/train/wire.cpp", "#include <mpi.h>\n", "MPI belongs in src/comm/"),
    ],
    "quiet_library": [
        ("src/train/loud.cpp", "int f() { std::cerr << 1; }\n", "src/train/loud.cpp:1"),
        ("src/core/loud.cpp", '\nvoid f() { std::printf("x"); }\n', "src/core/loud.cpp:2"),
        ("src/graph/end.cpp", "void f() { std::exit(2); }\n", "calls exit"),
        ("include/heliograph/end.hpp", "inline void f() { std::abort(); }\n", "calls std::abort"),
    ],
    "fuzz_compiler": [
        ("src/core/sort.cpp", "auto end = std::ranges::unique(rows).begin();\n", "ranges::unique"),
    ],
    "machine_paths": [
        ("scripts/run.sh", "cd /" + "home/somebody/project\n", "scripts/run.sh:1"),
        ("CMakePresets.json", '{"binaryDir": "/' + 'root/build"}\n', "CMakePresets.json:1"),
    ],
    "test_filters": [
        ("CMakePresets.json", '{"testPresets": [{"name": "tsan", "filter": {"exclude": {"name": "' +
         "(a)" * (MOST_GROUPS + 1) + '"}}}]}', "tsan has 10 groups"),
    ],
    "clang_format": [("src/core/crooked.cpp", "int  f( ) {return 1 ;}\n", "crooked.cpp:1")],
    "public_headers": [
        ("include/heliograph/lone.hpp", "#pragma once\nstd::string name();\n", "lone.hpp"),
        ("include/heliograph/twice.hpp", "struct Twice {};\n", "twice.hpp"),
        ("include/heliograph/inner.hpp", '#pragma once\n#include "core/csr.hpp"\n', "inner.hpp"),
    ],
}
