"""Calls the `heliograph` command and reads its output. Experiments share nothing else with the
engine, so a user can do by hand what an experiment does."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILDS = ("build/release", "build/test", "build/quickstart")


USAGE_ERRORS = (2, 3)  # Exit codes of the command for flags and data that no repetition mends.


_running = set()  # Processes of commands that have not ended.


class CommandFailed(Exception):
    """The command failed or took too long. The text holds the command and the end of its output;
    `code` is its exit code, or None."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


def require_modules(*names):
    """Exits with one line if this Python lacks one of these libraries."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {sys.executable} has no {', '.join(missing)}: run "
                 "`scripts/install_dependencies.sh experiments`, and start this script with "
                 "/usr/bin/python3, for which that installs them")


def find_command(given=None):
    """Path of the command: `given`, or the first that a usual build made. Exits if none exists."""
    if given:
        found = shutil.which(given)
        if not found:
            sys.exit(f"{given} is not a program")
        return os.path.abspath(found)
    for build in BUILDS:
        path = os.path.join(ROOT, build, "heliograph")
        if os.access(path, os.X_OK):
            return path
    sys.exit("the command is not built: run scripts/quickstart.sh, or give --heliograph PATH")


def add_command_option(parser):
    parser.add_argument("--heliograph", metavar="PATH",
                        help="the command (default: the first of "
                             f"{', '.join(b + '/heliograph' for b in BUILDS)})")


def make_flags(settings):
    """{"bits": 1, "tf32": True, "precompute": False} -> ["--bits", "1", "--tf32",
    "--no-precompute"]."""
    flags = []
    for name, value in settings.items():
        if value is True:
            flags.append(f"--{name}")
        elif value is False:
            flags.append(f"--no-{name}")
        else:
            flags += [f"--{name}", str(value)]
    return flags


def run(command, *arguments, limit=None):
    """Runs the command to its end, for at most `limit` seconds, and returns what it printed. Raises
    CommandFailed."""
    line = [command, *arguments]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _running.add(process)
        try:
            out, messages = process.communicate(timeout=limit)
        except BaseException as error:
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise CommandFailed(f"over {limit} s: {shlex.join(line)}") from error
            raise
        finally:
            _running.discard(process)
    if process.returncode != 0:
        last = "\n".join(messages.strip().split("\n")[-5:])
        raise CommandFailed(f"exit code {process.returncode}: {shlex.join(line)}\n{last}",
                            process.returncode)
    return out


def stop_commands():
    """Asks all commands that `run` has started to stop, as a supervisor does."""
    for process in list(_running):
        process.terminate()


def read_metrics(run_directory):
    """Returns the lines of metrics.jsonl, a dict for each epoch."""
    with open(os.path.join(run_directory, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]
