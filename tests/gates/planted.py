"""Small trees with one planted fault each, and what a gate must answer to them."""

import contextlib
import io
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_python(command):
    """In this process, because starting another costs more than the gate; a crash stays one."""
    output, code = io.StringIO(), 0
    with (unittest.mock.patch.object(sys, "argv", command),
          unittest.mock.patch.object(sys, "path", [str(ROOT / "ci"), *sys.path]),
          contextlib.redirect_stdout(output), contextlib.redirect_stderr(output)):
        try:
            runpy.run_path(command[0], run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    return code, output.getvalue()


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
        words = [*self.gate[1:], *(str(argument) for argument in arguments or [self.tree])]
        if script.endswith(".py"):
            return run_python([script, *words])
        run = subprocess.run(["bash", script, *words], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr

    def assert_refuses(self, message, *arguments):
        code, output = self.run_gate(*arguments)
        self.assertIn(message, output)
        self.assertEqual(code, 1, output)

    def assert_passes(self, *arguments):
        code, output = self.run_gate(*arguments)
        self.assertEqual(code, 0, output)
