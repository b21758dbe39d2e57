"""Reads and writes JSON files; a file is replaced as a whole or not at all."""

import json
import os


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Writes `value` so that a reader always finds a complete file, the old one or the new one."""
    with open(path + ".partial", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.replace(path + ".partial", path)
