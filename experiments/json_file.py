"""Files of JSON: read whole, and written whole or not at all."""

import json
import os


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Whoever reads the file meanwhile, or after the writer was killed, finds all of it or the last."""
    with open(path + ".partial", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.replace(path + ".partial", path)
