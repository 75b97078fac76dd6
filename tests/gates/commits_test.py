"""ci/check_commits.py refuses subjects that no reader of the history can use."""

import os
import subprocess
import unittest
import unittest.mock

import planted


class Commits(planted.GateTest):
    gate = ["check_commits.py"]

    def setUp(self):
        super().setUp()
        self.git("init", "-q")
        self.commit("Whatever came before the base")
        self.base = self.git("rev-parse", "HEAD")
        self.commit("model: Add a record")

    def git(self, *arguments):
        command = ["git", "-C", str(self.tree), "-c", "user.name=A", "-c", "user.email=a@b.c",
                   "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, subject, name="model/a.h"):
        self.plant(name, subject)
        self.git("add", "-A")
        self.git("commit", "-q", "--no-verify", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def refuse(self, subject, fault):
        commit = self.commit(subject)
        self.assert_refuses(f"{commit[:12]}: {subject}: {fault}", self.tree, "--base", self.base)
        self.git("reset", "-q", "--hard", "HEAD~1")

    def accept(self):
        self.assert_passes(self.tree, "--base", self.base)

    def skipped(self, reason, tree, *arguments):
        code, output = self.run_gate(tree, *arguments)
        self.assertEqual((code, f"check_commits: skipped: {reason}" in output), (77, True), output)

    def test_subject_of_65_characters(self):
        subject = "model: " + "A" * 57
        self.commit(subject)
        self.accept()
        self.refuse(subject + "A", "65 characters, 64 are allowed")

    def test_subject_without_area_or_effect(self):
        for subject in ("Add a record", "model: add a record", "model:Add a record", "model: Add.",
                        "WIP", "model, config: Add a record"):
            self.refuse(subject, "not `area: Effect in the imperative` without a full stop")

    def test_area_that_is_no_folder(self):
        self.refuse("models: Add a record", "models is no top-level folder")

    def test_area_of_a_folder_that_is_gone(self):
        self.commit("config: Add a key", "config/keys.h")
        (self.tree / "config/keys.h").unlink()
        self.commit("config: Remove the key")
        self.accept()

    def test_commit_that_stays_as_it_is(self):
        commit = self.commit("Add a record")
        self.plant("ci/commits_allowed.txt", f"{commit} |\n")
        self.assert_refuses("Add a record: not `area: ", self.tree, "--base", self.base)
        self.plant("ci/commits_allowed.txt", f"{commit} | was there before the rule\n")
        self.accept()

    def test_merges_are_left_out(self):
        self.git("checkout", "-q", "-b", "other")
        self.commit("config: Add a key", "config/keys.h")
        self.git("checkout", "-q", "-")
        self.commit("model: Change the record")
        self.git("merge", "-q", "--no-ff", "-m", "Merge other", "other")
        self.accept()

    def test_checkout_of_another_user(self):
        with unittest.mock.patch.dict(os.environ, GIT_TEST_ASSUME_DIFFERENT_OWNER="1"):
            self.accept()

    def test_history_that_cannot_be_read(self):
        shallow = self.tree / "shallow"
        self.git("clone", "-q", "--depth=1", f"file://{self.tree}", str(shallow))
        self.skipped("a shallow clone has no history", shallow, "--base", self.base)
        (self.tree / "plain").mkdir()
        self.skipped("not a git checkout", self.tree / "plain")
        self.skipped("the history does not hold the base", self.tree)
        self.skipped("there is no commit after", self.tree, "--base", "HEAD")


if __name__ == "__main__":
    unittest.main()
