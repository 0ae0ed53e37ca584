"""Runs these tests: `python tests/run.py [test_turns]`. As `python -m unittest`, but it does not end by accident."""

import os
import sys
import unittest

os.chdir(os.path.dirname(os.path.abspath(__file__)))
tests = unittest.main(module=None, argv=["run.py", *(sys.argv[1:] or ["discover"]), "-v"], exit=False)
sys.stdout.flush()
sys.stderr.flush()
# Threads of Temporal's SDK may abort an interpreter that is about to end (temporalio/sdk-python#300).
os._exit(0 if tests.result.wasSuccessful() else 1)
