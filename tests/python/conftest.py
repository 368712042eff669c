# SPDX-License-Identifier: Apache-2.0
"""The package is that of python/, with the library that CONVT_LIBRARY names or the one of the release build."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("CONVT_LIBRARY", str(ROOT / "build/release/libconvt.so"))
sys.path.insert(0, str(ROOT / "python"))
