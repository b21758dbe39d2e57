"""The files of the project and what they include, for the house checks."""

import os
import re

FOLDERS = (".ci", "bench", "cmake", "docs", "examples", "experiments", "include", "scripts", "src",
           "tests")
CODE = (".cpp", ".hpp", ".cu", ".cuh")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def project_files(root):
    """Relative paths ("/" between folders) of all files, sorted; build folders lie elsewhere."""
    found = [name for name in os.listdir(root)
             if name != ".git" and os.path.isfile(os.path.join(root, name))]
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if f != "__pycache__" and not f.startswith("build")]
            relative = os.path.relpath(folder, root).replace(os.sep, "/")
            found += [f"{relative}/{name}" for name in names]
    return sorted(found)


def code_files(root, *tops):
    """Those of `project_files` that are C++ or CUDA and lie in one of the folders `tops`."""
    return [path for path in project_files(root)
            if path.endswith(CODE) and path.split("/", 1)[0] in tops]


def read(root, path):
    """The file's text, or None where it is not text."""
    with open(os.path.join(root, path), "rb") as file:
        data = file.read()
    return None if b"\0" in data else data.decode("utf-8", errors="replace")


def includes(root, path):
    """[(line number, name, True if in quotes)] of a source file, in order."""
    text = read(root, path) or ""
    return [(text.count("\n", 0, m.start(1)) + 1, m[2], m[1] == '"')
            for m in INCLUDE.finditer(text)]


def room_of(path):
    """"public", the room of a file under src/, or None."""
    if path.startswith("include/"):
        return "public"
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None
