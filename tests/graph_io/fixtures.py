"""Writes test files with NumPy and SciPy: fixtures.py FUNCTION FOLDER."""

import pathlib
import subprocess
import sys

import numpy as np
import scipy.io
import scipy.sparse

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def npy_dtypes(folder):
    """One 2 x 3 array of zeros and ones for each dtype, in both orders, and odd values."""
    values = np.array([[0, 1, 1], [1, 0, 0]])
    for dtype in DTYPES:
        name = dtype.replace("?", "b1")
        np.save(folder / f"{name}.npy", values.astype(dtype))
        np.save(folder / f"{name}_fortran.npy", np.asfortranarray(values.astype(dtype)))
    np.save(folder / "half.npy", np.array([1.5, -2.25, 6e-8, 65504, np.inf, np.nan, -0.0], "f2"))
    np.save(folder / "big_endian.npy", values.astype(">i4"))
    np.save(folder / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(folder / "structured.npy", np.zeros(2, dtype=[("a", "<i4")]))
    np.save(folder / "complex.npy", np.zeros(2, dtype="c8"))
    np.save(folder / "strings.npy", np.array(["tv", "gr\u00fcn", "\u4e2d\u56fd", "\U0001f600"]))
    np.save(folder / "scalar.npy", np.array(7))
    np.save(folder / "empty.npy", np.zeros((0, 3), "f4"))
    np.save(folder / "u8_big.npy", np.array([2**63], "u8"))
    np.save(folder / "f8_big.npy", np.array([[1.0, 2.0], [3.0, 1e39]]))
    np.save(folder / "f8_part.npy", np.array([1.0, 2.5]))
    np.save(folder / "three.npy", np.asfortranarray(np.zeros((2, 2, 2), "i4")))
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(folder / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, values.astype("i4"), version=version)


def check_written(folder):
    """Reads back what write_npy wrote; a mismatch ends with an error."""
    flat = np.load(folder / "flat.npy")
    assert flat.dtype == np.int32 and flat.shape == (3,), (flat.dtype, flat.shape)
    assert flat.tolist() == [1, -2, 2**31 - 1]
    table = np.load(folder / "table.npy")
    assert table.dtype == np.float32 and table.shape == (2, 3), (table.dtype, table.shape)
    assert table.tolist() == [[0.5, 1.5, 2.5], [-1, 0, 3]]
    assert np.load(folder / "empty.npy").shape == (0, 4)


if __name__ == "__main__":
    globals()[sys.argv[1]](pathlib.Path(sys.argv[2]))
