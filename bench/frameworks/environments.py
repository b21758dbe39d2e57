"""The Python environments of the frameworks: Debian's Python and virtual environments."""

import os
import subprocess
import sys
import venv

# The packages of each environment, a list for each call of pip.
PACKAGES = {
    "pytorch": [["torch", "numpy", "torch_geometric"]],
    # DGL's last release on the index is built for PyTorch up to 2.2.1 and NumPy 1.
    "dgl": [["torch==2.2.1", "torchdata==0.7.1", "numpy<2", "pandas", "pydantic", "pyyaml",
             "dgl==2.1.0"]],
}
SETTINGS = {"DGLBACKEND": "pytorch"}  # keeps DGL from writing a file into the home directory


class InstallFailed(Exception):
    """An environment could not be made; the text is the end of pip's output."""


def interpreter(folder, name):
    return os.path.join(folder, name, "bin", "python")


def install(folder, name, log=sys.stderr):
    """Makes the environment `name` under `folder`, or completes it. Raises InstallFailed."""
    python = interpreter(folder, name)
    if not os.access(python, os.X_OK):
        venv.create(os.path.join(folder, name), with_pip=True, symlinks=True)
    for packages in PACKAGES[name]:
        print(f"Installing {' '.join(packages)}", file=log)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InstallFailed("\n".join(done.stderr.strip().split("\n")[-3:]))


def install_for(folder, frameworks):
    """Makes the environments of the frameworks; those of one that fails stay unusable."""
    for name in PACKAGES:
        if any(one.python == interpreter(folder, name) for one in frameworks):
            try:
                install(folder, name)
            except InstallFailed as error:
                print(f"{os.path.basename(sys.argv[0])}: {name}: {error}", file=sys.stderr)


def add_options(parser):
    """Options that say where the frameworks are."""
    parser.add_argument("--debian-python", default="/usr/bin/python3")
    parser.add_argument("--venv", metavar="DIR", help="folder of the virtual environments")
    parser.add_argument("--install", action="store_true", help="make the virtual environments first")


def child_environment(threads):
    """Environment variables of a worker, with the same number of threads for every library."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
                           str(threads))
    return {**os.environ, **SETTINGS, **counts}


def why_unusable(python, modules, threads=1):
    """None if `python` can import the modules, else the reason."""
    if not (python and os.access(python, os.X_OK)):
        return "not installed"
    done = subprocess.run([python, "-c", "\n".join(f"import {name}" for name in modules)],
                          capture_output=True, text=True, check=False,
                          env=child_environment(threads))
    if done.returncode == 0:
        return None
    return (done.stderr.strip().split("\n") or ["import failed"])[-1]
