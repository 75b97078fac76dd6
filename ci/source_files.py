#!/usr/bin/env python3
"""Prints the source files that the gates read: source_files.py <root> <suffix>..."""

import sys

import gate

print("\n".join(gate.source_files(sys.argv[1], sys.argv[2:])))
