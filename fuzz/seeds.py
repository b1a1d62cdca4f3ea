#!/usr/bin/env python3
"""Creates seed inputs for the fuzz targets: whole files, and the regions of files that a target takes.

    python3 fuzz/seeds.py FOLDER [FILE OR FOLDER ...]

Writes one corpus per target into FOLDER, which is fuzz/corpus for `cargo fuzz run`. By default, the inputs come from the files
in tests/data. The header of fuzz/fuzz_targets/TARGET.rs describes the bytes that a target expects before its input.
"""

import hashlib
import json
import pathlib
import struct
import sys

DATA = pathlib.Path(__file__).parent.parent / "tests" / "data"
# Longer inputs are left out: they are slow and find nothing new.
MAX_BYTES = 64 << 10
MAX_ROWS = 200
MAX_PAYLOADS = 4
ROW_BYTES = 104
TAIL_BYTES = 16
# The sizes that the first byte of an input of `payload` selects. The second byte is added to them. See payload.rs.
SIZES = [
    1, 1, 1, 300, 300, 4096, 4096, (64 << 10) - 100, (128 << 10) - 100, (256 << 10) - 100, (1 << 20) - 100, (2 << 20) - 100,
    (32 << 20) - 100, (32 << 20) + 1, (33 << 20) - 100, (40 << 20) - 100,
]  # fmt: skip
# The arrays of the target `tiledb`. See tiledb.rs.
ARRAYS = [
    "array_metadata", "deletes_nodups_raw", "dense_var_fragments", "dimension_labels", "enumerations", "group_of_two",
    "nullable_sparse", "sparse_mixed_dims_hil",
]  # fmt: skip


def word(data, offset):
    return struct.unpack_from("<Q", data, offset)[0] if offset + 8 <= len(data) else 1 << 64


class Corpora:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def add(self, target, data):
        if len(data) > MAX_BYTES:
            return
        folder = self.folder / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def size_of(raw):
    """Returns the first two bytes of an input for `payload`: a declared size equal or close to the given one."""
    for number, size in enumerate(SIZES):
        if 0 <= raw - size <= 255:
            return bytes([number, raw - size])
    return bytes([5, raw & 255])


def regions(corpora, data):
    """Splits a file into inputs, as far as it can be parsed."""
    index, length = word(data, 16), word(data, 24)
    end = index + length
    if end > len(data) or length < 32 or not data.startswith(b"TETR"):
        corpora.add("superblock", data[:512])
        return
    # With the file's own rows, and with the rows of the target.
    corpora.add("superblock", data[:end])
    rows = data[index + 32 : end][: MAX_ROWS * ROW_BYTES]
    head = bytearray(data[: index + 32])
    count = min(len(rows) // ROW_BYTES, 8)
    struct.pack_into("<Q", head, 24, 32 + count * ROW_BYTES)
    struct.pack_into("<Q", head, index + 8, count)
    corpora.add("superblock", bytes(head))
    # Offsets count from the first payload.
    moved = bytearray(rows)
    payloads = 0
    for at in range(0, len(rows) - ROW_BYTES + 1, ROW_BYTES):
        offset, raw, stored = struct.unpack_from("<3Q", rows, at + 72)
        codec = struct.unpack_from("<I", rows, at + 96)[0]
        struct.pack_into("<Q", moved, at + 72, (offset - end) % (1 << 64))
        if codec == 1 and offset + stored <= len(data) and payloads < MAX_PAYLOADS:
            payloads += 1
            corpora.add("payload", size_of(raw) + data[offset : offset + stored])
    for selector in range(4):
        corpora.add("index", bytes([selector]) + bytes(moved))
    if not data.endswith(b"THST"):
        return
    start = len(data) - TAIL_BYTES - word(data, len(data) - TAIL_BYTES)
    footer = data[max(start, 0) : -TAIL_BYTES]
    corpora.add("footer", b"\0" + footer)
    corpora.add("footer", b"\1" + footer)
    try:
        parsed = json.loads(footer)
    except ValueError:
        return
    if not isinstance(parsed, dict):
        return
    references = {key: parsed.pop(f"{key}_ref", None) for key in ("metadata", "zone_maps", "secondary_index")}
    corpora.add("footer", b"\5" + json.dumps(parsed).encode())
    if "metadata" in parsed:
        corpora.add("footer", b"\3" + json.dumps(parsed["metadata"]).encode())
    for key, reference in references.items():
        if isinstance(reference, dict) and reference["offset"] + reference["len"] <= len(data):
            region = data[reference["offset"] : reference["offset"] + reference["len"]]
            if key == "metadata":
                corpora.add("footer", b"\2" + region)
            else:
                corpora.add("zones", bytes([key == "secondary_index"]) + region)


def zones(corpora):
    """Yields the documents of the targets' sample file (see container.rs), whole and with one entry each."""
    source = (pathlib.Path(__file__).parent / "fuzz_targets" / "container.rs").read_text()

    def constant(name):
        start = source.index('r#"', source.index(f"const {name}:")) + 3
        return source[start : source.index('"#;', start)]

    metadata = constant("METADATA")
    corpora.add("footer", b'\5{"history":[["write","x.h5","0"]],"metadata":' + metadata.encode() + b"}")
    corpora.add("footer", b"\2" + metadata.encode())
    for selector, name, key in ((0, "ZONE_MAPS", "chunks"), (1, "SECONDARY_INDEX", "indexes")):
        document = json.loads(constant(name))
        for selector in (selector, selector + 2):
            corpora.add("zones", bytes([selector]) + constant(name).encode())
            for entry in document[key]:
                one = json.dumps({**document, key: [entry]}, separators=(",", ":"))
                corpora.add("zones", bytes([selector]) + one.encode())


def frame(blocks, size=None, checksum=False):
    """Returns a zstd frame of the given blocks, each a kind (0 raw, 1 repeated) and its bytes."""
    descriptor = (0xA0 if size is not None else 0) | (4 if checksum else 0)
    head = bytes([descriptor]) + (struct.pack("<I", size) if size is not None else bytes([0x40]))
    body = b""
    for number, (kind, content, length) in enumerate(blocks):
        last = number + 1 == len(blocks)
        body += struct.pack("<I", length << 3 | kind << 1 | last)[:3] + content
    return b"\x28\xb5\x2f\xfd" + head + body + (b"\0\0\0\0" if checksum else b"")


def payloads(corpora):
    """Yields frames with and without their size, several frames, skippable frames, and a truncated frame."""
    skipped = struct.pack("<II", 0x184D2A50, 5) + b"abcde"
    for number, size in enumerate(SIZES):
        blocks, left = [], size + 7
        while left > 0:
            length = min(left, 128 << 10)
            blocks.append((1, bytes([left & 255]), length))
            left -= length
        # Room for as many bytes as the index may declare.
        padding = struct.pack("<II", 0x184D2A51, 600) + bytes(600)
        for data in (
            padding + frame(blocks, size + 7),
            padding + frame(blocks),
            frame(blocks) + padding,
            padding + frame(blocks)[:-2],
            padding + frame(blocks, size + 7, True),
            padding + frame(blocks) + frame([(1, b"x", 1)]),
            padding + frame(blocks[:-1] or blocks) + skipped + frame(blocks[-1:]),
        ):
            corpora.add("payload", bytes([number, 7]) + data)
    text = b"several bytes"
    for data in (
        frame([(0, text, len(text))], len(text)),
        frame([(0, text[:5], 5)]) + skipped + frame([(0, text[5:], len(text) - 5)]),
        skipped,
        b"",
    ):
        corpora.add("payload", bytes([0, len(text) - 1]) + data)


def arrays(corpora):
    """Adds each file of the arrays of the target `tiledb`, after its ordinal."""
    roots = [DATA / "tiledb" / "arrays" / name for name in ARRAYS]
    files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    for number, path in enumerate(files):
        corpora.add("tiledb", bytes([number]) + path.read_bytes())


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    corpora = Corpora(sys.argv[1])
    for source in map(pathlib.Path, sys.argv[2:] or [DATA]):
        files = sorted(source.rglob("*.tet")) if source.is_dir() else [source]
        for path in files:
            if not path.is_file():
                continue
            data = path.read_bytes()
            corpora.add("open", data)
            corpora.add("query", data + b"\0\0")
            regions(corpora, data)
        documents = sorted(source.rglob("*.tatami")) if source.is_dir() else []
        for path in documents:
            for selector in b"\0\1":
                corpora.add("documents", bytes([selector]) + path.read_bytes())
        for path in sorted((source / "hdf5").glob("*.h5")) + sorted((source / "hdf5").glob("*.nc")):
            for target in ("hdf5", "open"):
                corpora.add(target, path.read_bytes())
            corpora.add("query", path.read_bytes() + b"\0\0")
        for path in sorted((source / "netcdf").glob("*.nc")):
            for target in ("netcdf", "open"):
                corpora.add(target, path.read_bytes())
            corpora.add("query", path.read_bytes() + b"\0\0")
    zones(corpora)
    payloads(corpora)
    arrays(corpora)


if __name__ == "__main__":
    main()
