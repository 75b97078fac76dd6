"""Small trees with one planted fault each, and what a gate must answer to them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class GateTest(unittest.TestCase):
    """`gate` is the command before the tree's path, as a list; its first word lies in ci/."""

    gate = []

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddpscope_gate_")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)

    def plant(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def copy(self, *names):
        for name in names:
            self.plant(name, (ROOT / name).read_text(encoding="utf-8"))

    def run_gate(self, *arguments):
        script = str(ROOT / "ci" / self.gate[0])
        command = [sys.executable, script] if script.endswith(".py") else ["bash", script]
        command += [*self.gate[1:], *(str(argument) for argument in arguments or [self.tree])]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr

    def assert_refuses(self, message, *arguments):
        code, output = self.run_gate(*arguments)
        self.assertIn(message, output)
        self.assertEqual(code, 1, output)

    def assert_passes(self, *arguments):
        code, output = self.run_gate(*arguments)
        self.assertEqual(code, 0, output)
