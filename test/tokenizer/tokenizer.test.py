#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer against llama.cpp itself, where LLAMA_CPP names a built one; else skipped.

test/oracle/tokenizer.py does the work: random texts for SmolLM2 and stories260K, and llama.cpp's own test texts
for a vocabulary of each kind that it ships.
"""
import importlib.util
import os
import subprocess
import sys

llama, build = os.environ.get("LLAMA_CPP", ""), os.environ.get("MOTLEY_BUILD", "build/asan")
if not os.path.isdir(os.path.join(llama, "build", "bin")) or not importlib.util.find_spec("gguf"):
    print("skipped: LLAMA_CPP does not name a built llama.cpp, or Python lacks the package gguf")
    sys.exit(77)

subprocess.run(["cmake", "--build", build, "--target", "motley_tokenize"], check=True, stdout=subprocess.DEVNULL)
models = os.path.join(llama, "models", "ggml-vocab-%s.gguf")
runs = [("10000", [f for f in (os.environ.get("MOTLEY_TEST_MODEL"), "../shared/data/tok512.bin")
                   if f and os.path.exists(f)]),
        ("500", [models % name for name in ("llama-spm", "gpt-2", "llama-bpe", "starcoder", "qwen2", "falcon",
                                            "deepseek-llm", "deepseek-coder", "command-r", "refact", "mpt")])]
failed = False
for texts, files in runs:
    command = [sys.executable, "test/oracle/tokenizer.py", "--build", build, "--texts", texts] + files
    failed = bool(files) and subprocess.run(command).returncode != 0 or failed
sys.exit(failed)
