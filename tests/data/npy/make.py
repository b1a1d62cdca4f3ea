"""Writes the files of this directory, with NumPy 2."""

import numpy as np

numbers = np.arange(24).reshape(2, 3, 4)
np.save("c_order.npy", (numbers / 2).astype("<f4"))
np.save("fortran_order.npy", np.asfortranarray((numbers / 2).astype("<f8")))
np.save("big_endian.npy", (numbers * 100 - 1000).astype(">i2"))
np.save("int8.npy", (numbers[0] - 6).astype("i1"))
np.save("bool.npy", numbers[0] % 3 == 0)
np.save("times.npy", np.array(["2024-01-01T00", "NaT", "2024-01-02T12"], dtype="M8[h]"))
np.save("texts.npy", np.array([["Köln", ""], ["Rome", "Köln"]]))
np.save("complex.npy", np.array([1j]))
np.save("objects.npy", np.array([None, 1], dtype=object), allow_pickle=True)
np.save("scalar.npy", np.float64(1.5))
np.save("empty.npy", np.zeros((0, 3)))
arrays = {
    "t2m": (numbers / 2).astype("<f4"),
    "time": np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"),
    "lat": np.array([-45.0, 0.0, 45.0]),
    "station": np.array(["a", "b", "c", "d"], dtype="S4"),
    "imaginary": np.array([1j]),
}
np.savez("stored.npz", **arrays)
np.savez_compressed("compressed.npz", **arrays)
