# SPDX-License-Identifier: Apache-2.0
"""make_zip_corpus.py: writes test/fuzz/corpus/zip, one small archive for each feature and each lie of the format.

The output is the same every time, so it is kept in the repository; run it again after a change.
Usage: python3 test/fuzz/make_zip_corpus.py
"""
import io
import os
import struct
import zipfile
import zlib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "zip")
MODEL = b"GGUF" + bytes(i * 7 % 251 for i in range(300))


def info(name, method=zipfile.ZIP_DEFLATED):
    entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
    entry.compress_type = method
    return entry


def archive(*entries, comment=b"", zip64=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for entry, data in entries:
            with z.open(entry, "w", force_zip64=zip64) as file:
                file.write(data)
        z.comment = comment
    return out.getvalue()


def patched(data, at, value):
    return data[:at] + value + data[at + len(value):]


def hand_made(name, packed, size, crc, method=8, zip64=None):
    """An archive of one entry that says whatever it is told to."""
    extra = struct.pack("<HHQQ", 1, 16, *zip64) if zip64 else b""
    sizes = (0xffffffff, 0xffffffff) if zip64 else (len(packed), size)
    local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, method, 0, 33, crc, *sizes, len(name), 0) + name
    record = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, method, 0, 33, crc, *sizes, len(name),
                         len(extra), 0, 0, 0, 0, 0) + name + extra
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 1, 1, len(record), len(local) + len(packed), 0)
    return local + packed + record + end


def deflated(data):
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    return z.compress(data) + z.flush()


def unseekable(entry, data):
    """As a stream writes it: sizes after the data, in a descriptor."""
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, piece):
            self.data += bytes(piece)
            return len(piece)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as z:
        z.writestr(entry, data)
    return pipe.data


def samples():
    plain = archive((info("pkg/model.gguf"), MODEL), (info("pkg/__init__.py"), b"x = 1\n"))
    record = plain.index(b"PK\x01\x02")
    end = plain.index(b"PK\x05\x06")
    bomb = deflated(bytes(1 << 20))
    return {
        "good-deflated": plain,
        "good-stored": archive((info("m.gguf", zipfile.ZIP_STORED), MODEL)),
        "good-empty-entry": archive((info("m.gguf"), b"")),
        "good-zip64": archive((info("m.gguf"), MODEL), zip64=True),
        "good-comment": archive((info("m.gguf"), MODEL), comment=b"PK\x05\x06 not the end" * 3),
        "good-streamed": unseekable(info("m.gguf"), MODEL),
        "good-empty": archive(),
        "bad-count": patched(plain, end + 10, b"\xff\xff"),
        "bad-directory-offset": patched(plain, end + 16, b"\xff\xff\xff\x7f"),
        "bad-directory-size": patched(plain, end + 12, b"\xff\xff\xff\x7f"),
        "bad-local-offset": patched(plain, record + 42, b"\xf0\xff\xff\x7f"),
        "bad-packed-size": patched(plain, record + 20, b"\xf0\xff\xff\x7f"),
        "bad-name-length": patched(plain, record + 28, b"\xff\xff"),
        "bad-crc": patched(plain, record + 16, b"\x00\x00\x00\x00"),
        "bad-method": patched(patched(plain, record + 10, b"\x0c\x00"), 8, b"\x0c\x00"),
        "bad-encrypted": patched(plain, record + 8, b"\x01\x00"),
        "bad-parts": patched(plain, end + 4, b"\x01\x00"),
        "bad-name-dots": archive((info("../m.gguf"), MODEL)),
        "bad-name-absolute": hand_made(b"/m.gguf", deflated(MODEL), len(MODEL), zlib.crc32(MODEL)),
        "bad-name-backslash": hand_made(b"..\\m.gguf", deflated(MODEL), len(MODEL), zlib.crc32(MODEL)),
        "bad-name-nul": hand_made(b"m.gguf\0.txt", deflated(MODEL), len(MODEL), zlib.crc32(MODEL)),
        "bad-names-differ": patched(plain, 30, b"pkg/harmless"),
        "bad-size-too-small": hand_made(b"m.gguf", deflated(MODEL), 10, zlib.crc32(MODEL)),
        "bad-size-too-large": hand_made(b"m.gguf", deflated(MODEL), 5000, zlib.crc32(MODEL)),
        "bad-size-impossible": hand_made(b"m.gguf", deflated(MODEL), 1 << 30, zlib.crc32(MODEL)),
        "bad-zip64-sizes": hand_made(b"m.gguf", deflated(MODEL), 0, 0, zip64=((1 << 63) - 1, (1 << 64) - 1)),
        "bad-zip64-missing": hand_made(b"m.gguf", b"", 0xffffffff, 0),
        "bad-data-cut": hand_made(b"m.gguf", deflated(MODEL)[:40], len(MODEL), zlib.crc32(MODEL)),
        "bad-data-and-more": hand_made(b"m.gguf", deflated(MODEL) + b"tail", len(MODEL), zlib.crc32(MODEL)),
        "bad-bomb": hand_made(b"m.gguf", bomb, 100, 0),
        "bad-truncated": plain[:end + 10],
        "bad-no-zip": b"<html>not a zip file</html>",
    }


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for name, data in samples().items():
        with open(os.path.join(FOLDER, name + ".zip"), "wb") as file:
            file.write(data)
