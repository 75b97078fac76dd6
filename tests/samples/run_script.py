#!/usr/bin/env python3
"""Runs a script of this folder. Where it passes, what it wrote to `--out` is removed: the files of
hundreds of runs take gigabytes."""

import pathlib
import runpy
import shutil
import sys

script = pathlib.Path(__file__).parent / sys.argv[1]
written = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else None
sys.argv = [str(script)] + sys.argv[2:]
try:
    runpy.run_path(str(script), run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
if written:
    shutil.rmtree(written, ignore_errors=True)
