"""Makes the documentation of the package as web pages: `python tools/make_docs.py FOLDER`. Needs `pdoc`, and nothing of Temporal
but its SDK if that is to be in them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pdoc
import tenure

MODULES = ["tenure", "tenure.fencing"]

if __name__ == "__main__":
    for name in tenure.__all__:
        # What is imported when it is first used is to be seen.
        getattr(tenure, name)
    temporal = ["tenure.temporal"] if find_spec("temporalio") else []
    pdoc.render.configure(docformat="google")
    pdoc.pdoc(*MODULES, *temporal, output_directory=Path(sys.argv[1]))
