"""Runs the tests of the client: `TENURE_PROGRAM=target/debug/tenure python tests/client/run_client.py [test_holding]`."""

import os
import sys
import unittest

os.chdir(os.path.dirname(os.path.abspath(__file__)))
unittest.main(module=None, argv=["run_client.py", *(sys.argv[1:] or ["discover"]), "-v"])
