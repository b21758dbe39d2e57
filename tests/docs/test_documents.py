#!/usr/bin/env python3
"""Runs what the documents print, as printed: the commands and snippets of each page in its order, in
one shell and one folder, and the examples of all --help texts likewise.

Usage: test_documents.py --heliograph PATH [--prefix INSTALLED --cxx COMPILER] PAGE... | help | self
Standard library only."""

import argparse
import glob
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from documents import Step, Unclear, command_names, read_help, read_markdown
from harness import ROOT, read, run
from stand_ins import HAS_SCIPY, PUBLISHED, make_sandbox, write_cora

SUITE = "it builds or runs this suite"
LONG = "it takes minutes or hours"
HOSTS = "it needs several hosts"
# What is not run, and why; by page. A line that no page prints any more is an error.
NOT_RUN = {
    "README.md": {
        "scripts/quickstart.sh": LONG, "scripts/test.sh": SUITE,
        **{command: "install.examples does the same" for command in (
            'cmake --install build/quickstart --prefix "$HOME/heliograph"',
            'cmake -S examples/embed -B build/embed -DCMAKE_PREFIX_PATH="$HOME/heliograph"',
            "cmake --build build/embed && build/embed/embed",
        )},
    },
    "docs/testing.md": {
        "scripts/install_dependencies.sh build test": "it installs packages",
        "cmake --preset release && cmake --build --preset release": SUITE,
        "ctest --preset release": SUITE,
        "ctest --preset release -L quant": SUITE,
        "ctest --preset release -R Codec": SUITE,
        "build/release/tests/test_quant --gtest_filter='*Unbiased*' --gtest_repeat=20": SUITE,
        "HELIOGRAPH_TEST_SIMD=AVX2 ctest --preset release -L '^(core|quant|layers|train)$'": SUITE,
        "HELIOGRAPH_TEST_SIMD=SCALAR build/release/tests/test_train": SUITE,
    },
    "docs/fuzzing.md": {
        "ctest --preset release -L fuzz": SUITE,
        "cmake --preset fuzz && cmake --build --preset fuzz": SUITE,
        "tests/fuzz/run.py": LONG,
        "tests/fuzz/run.py --seconds 60 data_set/metis": LONG,
        "build/fuzz/tests/fuzz_data_set build/fuzz/findings/data_set.metis-crash-0123": SUITE,
        "tests/fuzz/make_corpus.py build/release/heliograph": SUITE,
    },
    "docs/processes.md": {
        "srun --mpi=pmix -n 8 heliograph train --data graph/ --bits 1 --out runs/eight":
            "it needs Slurm",
        "torchrun --nnodes 2 --node-rank R --master-addr n1 --master-port 29500 --nproc-per-node 4 "
        "--no-python heliograph train --data graph/ --bits 1": HOSTS,
        "RANK=0 WORLD_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=29500 heliograph train --data graph/ "
        "--bits 1": HOSTS,
    },
    "docs/reliability.md": {
        "experiments/faults/campaign.py --out runs/faults": LONG,
        "experiments/faults/campaign.py --out runs/faults --quick": LONG,
        "experiments/faults/campaign.py --out runs/faults --only kill,term --seed 2": LONG,
    },
    "docs/headline.md": {
        "HELIOGRAPH=build/release/heliograph experiments/headline/run.sh runs/headline": LONG,
    },
    "docs/gpu.md": {command: "it needs a GPU or nvcc" for command in (
        "scripts/make_gpu_bundle.sh",
        "git archive --prefix=heliograph/ -o build/heliograph.tar.gz HEAD",
        "scripts/gpu_check.sh --call 1 --out results",
        "scripts/gpu_check.sh --call 2 --out results",
        "scripts/gpu_check.sh --call 3 --out results",
        "scripts/gpu_check.sh --dry --out dry",
    )},
}


def all_pages():
    """README.md and docs/*.md, relative to the project's root."""
    pages = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]
    return [os.path.relpath(page, ROOT) for page in pages]


def scaled_down(command):
    """The one change to what is printed: generated graphs have a twentieth of the printed scale."""
    return re.sub(r"(?<=--scale )[0-9.]+", lambda scale: f"{float(scale.group()) / 20:g}", command)


def lacking(step, has_mpi):
    """What this machine lacks for a step, or None."""
    if step.language == "sh" and step.text.startswith("mpirun ") and not has_mpi:
        return "MPI"
    if step.language == "sh" and not HAS_SCIPY:
        if "convert.py" in step.text or re.search(rf"--data ({'|'.join(PUBLISHED)})", step.text):
            return "SciPy"
    if "convert.py" in step.text:
        needed = {".pt": "torch", ".bin": "dgl", "tables": "pyarrow"}
        return next((module for form, module in needed.items()
                     if f"{form} " in step.text and not importlib.util.find_spec(module)), None)
    if step.language == "python":
        modules = re.findall(r"^(?:from|import) (\w+)", step.text, re.MULTILINE)
        return next((m for m in modules if not importlib.util.find_spec(m)), None)
    return None


def select(steps, not_run, has_mpi):
    """The steps to run. Throws AssertionError if `not_run` lists a command that is not printed."""
    printed = {step.text for step in steps}
    gone = [command for command in not_run if command not in printed]
    assert not gone, f"listed as not run, but not printed: {gone[0]}"
    selected = []
    for step in steps:
        missing = lacking(step, has_mpi)
        if missing:
            print(f"not run, since {missing} is missing: {step.text.strip()}")
        elif step.text not in not_run:
            selected.append(step)
    return selected


def whole_program(snippet, prefix):
    """A C++ snippet as a program: with every header that is installed and, unless it has one, a main."""
    headers = sorted(glob.glob(os.path.join(prefix, "include", "heliograph", "*.hpp")))
    lines = [f"#include <heliograph/{os.path.basename(header)}>" for header in headers]
    if re.search(r"\bint main\(", snippet) is None:
        snippet = "int main() {\n" + snippet + "}\n"
    return "\n".join(lines) + "\n" + snippet


def build_snippets(snippets, options, folder):
    """Builds each snippet as README.md tells users to, by find_package; returns the programs."""
    lines = ["cmake_minimum_required(VERSION 3.25)", "project(snippets LANGUAGES CXX)",
             "find_package(heliograph REQUIRED)"]
    for i, snippet in enumerate(snippets):
        with open(os.path.join(folder, f"snippet_{i}.cpp"), "w", encoding="utf-8") as file:
            file.write(whole_program(snippet, options.prefix))
        lines += [f"add_executable(snippet_{i} snippet_{i}.cpp)",
                  f"target_link_libraries(snippet_{i} PRIVATE heliograph::heliograph)"]
    with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    build = os.path.join(folder, "build")
    for line in (["cmake", "-S", folder, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                  f"-DCMAKE_PREFIX_PATH={options.prefix}", f"-DCMAKE_CXX_COMPILER={options.cxx}"],
                 ["cmake", "--build", build]):
        done = run(*line)
        assert done.returncode == 0, done.stdout + done.stderr
    return [os.path.join(build, f"snippet_{i}") for i in range(len(snippets))]


def shell_script(steps, programs):
    """One script of all steps, which ends at the first that fails and names it."""
    lines = ["set -euo pipefail"]
    programs = iter(programs)
    for step in steps:
        text = scaled_down(step.text) if step.language == "sh" else step.text
        shown = text if step.language == "sh" else f"this {step.language} snippet:\n{text}"
        lines.append(f"trap {shlex.quote('echo ' + shlex.quote('FAILED: ' + shown) + ' >&2')} ERR")
        if step.language == "cpp":
            lines.append(next(programs))
        elif step.language == "python":
            lines.append(f"python3 -c {shlex.quote(text)}")
        else:
            lines.append(text)
    return "\n".join(lines) + "\n"


def run_steps(steps, options):
    """Runs steps in a new sandbox. Throws AssertionError that holds the output if one fails."""
    if not steps:
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = make_sandbox(folder, options.heliograph)
        snippets = [step.text for step in steps if step.language == "cpp"]
        code = os.path.join(folder, "snippets")
        os.makedirs(code)
        programs = build_snippets(snippets, options, code) if snippets else []
        done = subprocess.run(["bash", "-c", shell_script(steps, programs)], cwd=folder,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout


def check_page(page, options, has_mpi):
    steps = select(read_markdown(read(ROOT, page)), NOT_RUN.get(page, {}), has_mpi)
    run_steps(steps, options)
    return len(steps)


def check_help(options):
    """Runs the examples of all commands in the order of `heliograph --help`."""
    steps = []
    for name in command_names(run(options.heliograph, "--help").stdout):
        steps += read_help(run(options.heliograph, name, "--help").stdout)
    run_steps(steps, options)
    return len(steps)


class SelfTest(unittest.TestCase):
    """The runner finds what it is for."""

    options = None

    def failure_of(self, *steps):
        with self.assertRaises(AssertionError) as caught:
            run_steps(list(steps), self.options)
        return str(caught.exception)

    def test_a_command_that_fails_is_named(self):
        last = Step("sh", "heliograph train --data graph --epochz 1")
        text = self.failure_of(Step("sh", "heliograph info"), last)
        self.assertIn("FAILED: " + last.text, text)

    def test_a_snippet_that_fails_is_named(self):
        self.assertIn("FAILED: this python snippet:\nassert 1 > 2",
                      self.failure_of(Step("python", "assert 1 > 2\n")))

    def test_a_shell_lasts_for_a_page(self):
        run_steps([Step("sh", "export WORD=heard"), Step("python", "import os\n"
                   "assert os.environ['WORD'] == 'heard'\n")], self.options)

    def test_a_listed_command_that_is_gone_is_an_error(self):
        with self.assertRaisesRegex(AssertionError, "not printed: heliograph gone"):
            select([Step("sh", "heliograph info")], {"heliograph gone": LONG}, True)

    def test_every_page_that_lists_commands_exists(self):
        self.assertLessEqual(set(NOT_RUN), set(all_pages()))

    def test_commands_are_read_as_printed(self):
        page = "```sh\n# first\na --b \\\n   c   # why\nd | e\n```\ntext\n```cpp\nint x;\n```\n"
        self.assertEqual(read_markdown(page), [Step("sh", "a --b c"), Step("sh", "d | e"),
                                               Step("cpp", "int x;\n")])

    def test_a_command_that_is_not_marked_is_an_error(self):
        for page in ("```\nheliograph info \n```\n", "text\n\n    A=1 heliograph train --data d\n"):
            with self.assertRaises(Unclear):
                read_markdown(page)

    def test_the_stand_in_for_cora_has_no_split(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cora.npz")
            write_cora(path)
            train = [self.options.heliograph, "train", "--data", path, "--epochs", "1", "--quiet"]
            self.assertEqual(run(*train).returncode, 2)
            self.assertEqual(run(*train, "--split", "random:60/20/20").returncode, 0)

    def test_every_help_has_examples(self):
        for name in command_names(run(self.options.heliograph, "--help").stdout):
            if name != "info":
                self.assertTrue(read_help(run(self.options.heliograph, name, "--help").stdout), name)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="a page, relative to the project's root; `pages`: "
                        "all pages but those after it; `help`; `self`: the runner's own tests")
    parser.add_argument("--heliograph", required=True)
    parser.add_argument("--prefix")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    options.heliograph = os.path.abspath(options.heliograph)
    options.prefix = options.prefix and os.path.abspath(options.prefix)
    first, *rest = options.what
    if first == "self":
        SelfTest.options = options
        unittest.main(argv=sys.argv[:1])
    if first == "help":
        print(f"{check_help(options)} examples of --help ran")
        return
    built = re.search(r"\bmpi built", run(options.heliograph, "info").stdout)
    has_mpi = bool(built) and shutil.which("mpirun") is not None
    pages = [p for p in all_pages() if p not in rest] if first == "pages" else options.what
    for page in pages:
        try:
            print(f"{page}: {check_page(page, options, has_mpi)} steps ran")
        except (AssertionError, Unclear) as error:
            sys.exit(f"{page}: {error}")


if __name__ == "__main__":
    main()
