"""The SDK's own tests: `python3 -m unittest discover -s plugin-sdk/python/tests -t plugin-sdk/python`, or pytest.

In a project the SDK lies in a directory `tidegate`; here it is loaded from `src` under that name.
"""

import importlib.util
import sys
from pathlib import Path

SDK = Path(__file__).resolve().parent.parent / "src"
GOLDEN = Path(__file__).resolve().parents[3] / "wit" / "golden"

if "tidegate" not in sys.modules:
    spec = importlib.util.spec_from_file_location("tidegate", SDK / "__init__.py", submodule_search_locations=[str(SDK)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tidegate"] = module
    spec.loader.exec_module(module)
