"""When a mistake is found is counted in the steps of the summary, however many a turn has."""

import sys
import unittest

sys.path.insert(0, sys.argv.pop())

import latency  # noqa: E402


def records(steps, stated, *found):
    findings = [{"record": "finding", "id": latency.CHECK, "severity": "error", "first_step": step}
                for step in found]
    overhead = {latency.CHECK: {"coverage": 0.1, "latency_steps": stated}}
    return [*findings, {"record": "summary", "steps": steps, "overhead": overhead}]


class Judge(unittest.TestCase):
    def test_a_turn_with_one_optimizer_is_a_step(self):
        told = latency.judge(records(3000, 61, 1262), turns=3000, begin=1260)
        self.assertEqual(told, (1260, 3, True))

    def test_a_turn_with_two_optimizers_is_two_steps(self):
        told = latency.judge(records(24000, 58, 10084), turns=12000, begin=5040)
        self.assertEqual(told, (10079, 6, True))

    def test_three_cycles_of_two_optimizers_are_six_steps(self):
        for found, holds in ((10079 + 58 + 5, True), (10079 + 58 + 6, False)):
            told = latency.judge(records(24000, 58, found), turns=12000, begin=5040)
            self.assertEqual(told[2], holds)

    def test_what_was_told_before_it_began_does_not_hold(self):
        self.assertFalse(latency.judge(records(3000, 61, 1200), turns=3000, begin=1260)[2])

    def test_what_is_never_told_does_not_hold(self):
        told = latency.judge(records(3000, 61), turns=3000, begin=1260)
        self.assertEqual(told, (1260, None, False))

    def test_notes_and_other_checks_are_not_the_mistake(self):
        others = records(3000, 61, 1262, 1263)
        others[0]["id"] = "grad-missing"
        others[1]["severity"] = "note"
        self.assertIsNone(latency.judge(others, turns=3000, begin=1260)[1])


unittest.main()
