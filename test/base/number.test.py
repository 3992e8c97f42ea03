# SPDX-License-Identifier: Apache-2.0
"""number.test.py: the small number formats agree with ml_dtypes and NumPy.

Compiles src/base/number.c with test/base/number_shim.c (loops over arrays) into a shared library
and compares whole arrays: every code when reading; when writing, a slice of all 2^32 f32 values
that always holds their interesting neighbourhoods (--all does every one of them, minutes).
Set aside are inputs that the others treat otherwise by intent (they overflow to infinity or NaN
where ours saturates) or by accident (ml_dtypes 0.5 takes e8m0 ties up, and inputs between 2^-127
and 2^-126 to 2^-126 even where 2^-127 is nearer); test_number.c covers those.  Skipped (77) without numpy, ml_dtypes or a C compiler.
"""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import ml_dtypes
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
compiler = shutil.which("cc") or shutil.which("gcc")
if not compiler:
    print("skipped: no C compiler")
    sys.exit(77)

# name, type there, bits, largest finite value
FORMATS = [
    ("f16", np.float16, 16, None),
    ("bf16", ml_dtypes.bfloat16, 16, None),
    ("e5m2", ml_dtypes.float8_e5m2, 8, 57344.0),
    ("e4m3", ml_dtypes.float8_e4m3fn, 8, 448.0),
    ("e2m1", ml_dtypes.float4_e2m1fn, 4, 6.0),
    ("e8m0", ml_dtypes.float8_e8m0fnu, 8, 2.0**127),
]
CHUNK = 1 << 24  # f32 values at a time
STRIDE = 4099    # a prime, so that the slice sees all low bits


def build(folder):
    library = os.path.join(folder, "number.so")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-Isrc", "-o", library,
                    "src/base/number.c", "test/base/number_shim.c"], check=True)
    return ctypes.CDLL(library)


def call(function, source, target):
    function(ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(target.ctypes.data),
             ctypes.c_size_t(source.size))
    return target


def same(ours, theirs):
    return (ours == theirs) & (np.signbit(ours) == np.signbit(theirs)) | (
        np.isnan(ours) & np.isnan(theirs))


def check_reading(library, name, dtype, bits):
    storage = np.uint16 if bits == 16 else np.uint8
    codes = np.arange(1 << bits, dtype=storage)
    ours = call(library[f"read_{name}"], codes.astype(np.uint16), np.empty(codes.size, np.float32))
    theirs = codes.view(dtype).astype(np.float32)
    return np.flatnonzero(~same(ours, theirs))


def inputs(everything):
    if everything:
        for start in range(0, 1 << 32, CHUNK):
            yield np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32)
        return
    yield np.arange(0, 1 << 32, STRIDE, dtype=np.uint64).astype(np.uint32)
    upper = np.arange(1 << 16, dtype=np.uint32) << 16  # each with a tie, and both its sides
    for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1000, 0x0FFF, 0x1001):
        yield upper | np.uint32(low)


def check_writing(library, name, dtype, bits, largest, everything):
    wrong = 0
    for patterns in inputs(everything):
        values = patterns.view(np.float32)
        ours = call(library[f"write_{name}"], values, np.empty(values.size, np.uint16))
        storage = np.uint16 if bits == 16 else np.uint8
        with np.errstate(all="ignore"):
            theirs = values.astype(dtype)
            compared = ~np.isnan(values) if name != "e8m0" else values >= 2.0**-126
            if name == "e8m0":
                compared &= patterns & 0x7FFFFF != 0x400000
            if largest is not None:
                compared &= np.abs(values) <= largest
            bad = compared & (ours != theirs.view(storage))
            nan = np.isnan(values) if name != "e2m1" else np.zeros(values.shape, bool)
        back = call(library[f"read_{name}"], ours, np.empty(ours.size, np.float32))
        bad |= nan & ~np.isnan(back)
        for i in np.flatnonzero(bad)[:3]:
            print(f"{name}: {patterns[i]:#010x} gives {ours[i]:#x}, ml_dtypes {theirs[i]}")
        wrong += np.count_nonzero(bad)
    return wrong


def main():
    everything = "--all" in sys.argv
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        for name, dtype, bits, largest in FORMATS:
            for code in check_reading(library, name, dtype, bits)[:3]:
                print(f"{name}: code {code:#x} reads differently")
                failed += 1
            wrong = check_writing(library, name, dtype, bits, largest, everything)
            print(f"{name}: {wrong} differences in writing")
            failed += bool(wrong)
    sys.exit(failed != 0)


main()
