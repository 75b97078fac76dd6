"""A library with the values in it needs no CUDA library to start and exports nothing of theirs."""

import ctypes
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop()


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class Guest(unittest.TestCase):
    def test_needs_no_cuda_library(self):
        needed = [line for line in lines_of("readelf", "-d", LIBRARY) if "(NEEDED)" in line]
        self.assertTrue(needed)
        self.assertEqual([line for line in needed if "cuda" in line.lower()], [])

    def test_takes_no_cuda_symbol_from_the_program(self):
        undefined = lines_of("nm", "-D", "--undefined-only", LIBRARY)
        self.assertEqual([line for line in undefined if " cu" in line.lower()], [])

    def test_exports_only_its_own_function(self):
        exported = [line.split()[-1] for line in lines_of("nm", "-D", "--defined-only", LIBRARY)]
        self.assertEqual(exported, ["values_guest"])

    def test_works_without_a_driver(self):
        function = ctypes.CDLL(LIBRARY).values_guest
        function.restype = ctypes.c_double
        data = (ctypes.c_float * 3)(1, -5, 2)
        self.assertIn(function(data, 3), (5.0, 1.0))


unittest.main()
