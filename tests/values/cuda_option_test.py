"""DDPSCOPE_CUDA: AUTO goes without a toolkit that is absent or broken, ON demands one."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE, MODULES = sys.argv[1:]
del sys.argv[1:]
PROJECT = f"""
cmake_minimum_required(VERSION 3.22)
project(option LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH {MODULES})
include(DdpscopeCuda)
message(STATUS "enabled: ${{DDPSCOPE_CUDA_ENABLED}}")
"""


class Option(unittest.TestCase):
    def configure(self, value):
        """Where nvcc cannot run."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "CMakeLists.txt").write_text(PROJECT)
            run = subprocess.run(
                [CMAKE, "-S", folder, "-B", folder + "/build", "-DDDPSCOPE_CUDA=" + value,
                 "-DDDPSCOPE_NVCC=" + folder + "/nvcc"],
                env={**os.environ, "CUDACXX": folder + "/nvcc"}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, check=False)
        return run.returncode, " ".join(run.stdout.split())

    def test_auto_goes_without(self):
        status, output = self.configure("AUTO")
        self.assertEqual(status, 0, output)
        self.assertIn("enabled: OFF", output)

    def test_off_goes_without(self):
        status, output = self.configure("OFF")
        self.assertEqual(status, 0, output)
        self.assertIn("enabled: OFF", output)

    def test_on_ends_with_the_command_to_run(self):
        status, output = self.configure("ON")
        self.assertNotEqual(status, 0)
        self.assertIn("-DCMAKE_CUDA_COMPILER=<toolkit>/bin/nvcc; "
                      "or build without: cmake --preset no-cuda", output)

    def test_another_word_is_refused(self):
        status, output = self.configure("maybe")
        self.assertNotEqual(status, 0)
        self.assertIn('"maybe"; AUTO, ON and OFF are known', output)


unittest.main()
