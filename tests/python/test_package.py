# SPDX-License-Identifier: Apache-2.0
"""The Python package as such: its import, its documentation's examples, its hints, and that its tables' functions are
those of the library."""

import doctest
import importlib
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import convt
import convt_abi

ROOT = convt_abi.ROOT
PACKAGE = ROOT / "python/convt"
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def python(code, **environment):
    """What a fresh interpreter prints."""
    paths = os.pathsep.join([str(ROOT / "python"), *sys.path])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": paths, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_quick_and_imports_little():
    code = ("import sys, time; start = time.perf_counter(); import convt; taken = time.perf_counter() - start;"
            "print(taken, *[name for name in ('torch', 'numpy') if name in sys.modules])")
    taken, *heavy = python(code).split()
    assert not heavy
    # The least of several, since other programs run beside the tests.
    best = min(float(taken), *(float(python(code).split()[0]) for _ in range(4)))
    assert best < 0.1


def test_import_says_what_is_missing(tmp_path):
    code = "\ntry: import convt\nexcept ImportError as error: print(error)"
    assert "CONVT_LIBRARY names /nowhere" in python(code, CONVT_LIBRARY="/nowhere")
    assert "pip install" in python(code, CONVT_LIBRARY="")


def test_version_is_the_header_s():
    header = (ROOT / "include/convt/convt.h").read_text(encoding="utf-8")
    parts = [re.search(rf"CONVT_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    assert convt.__version__ == ".".join(parts)


def test_every_public_name_is_there():
    assert set(convt.__all__) <= set(dir(convt))
    for name in convt.__all__:
        assert getattr(convt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'conv_transpose4d'"):
        convt.conv_transpose4d  # pylint: disable=pointless-statement


@pytest.mark.parametrize("name", ["", *MODULES])
def test_examples_of_docstrings(name):
    module = importlib.import_module(f"convt.{name}".rstrip("."))
    result = doctest.testmod(module, extraglobs={"np": np, "convt": convt})
    assert result.failed == 0
    has_public_functions = name in ("", "_functional", "_library", "_plan", "ops", "problems")
    assert (result.attempted > 0) == has_public_functions


def test_threads():
    convt.set_num_threads(2)
    assert convt.get_num_threads() == 2
    convt.set_num_threads(0)
    for bad in (-1, 70000):
        with pytest.raises(convt.ConvtError, match="num_threads"):
            convt.set_num_threads(bad)


def test_errors_can_be_pickled():
    error = pickle.loads(pickle.dumps(convt.ConvtError("no", "unsupported")))
    assert (str(error), error.status) == ("no", "unsupported")


def test_header_s_functions_are_declared():
    """Every function of the C ABI but those of the named problems, which plans do without."""
    header = (ROOT / "include/convt/convt.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^CONVT_API [\w* ]*?\b(convt_\w+)\(", header, re.M))
    assert len(declared) > 50
    source = (PACKAGE / "_library.py").read_text(encoding="utf-8")
    ours = set(re.findall(r'\("(convt_\w+)",', source))
    rest = {name for name in declared - ours if not name.startswith(("convt_conv_transpose", "convt_f16", "convt_bf16"))}
    assert ours <= declared and not rest


@pytest.fixture(scope="session")
def hinted(tmp_path_factory):
    """The package's sources beside the stubs, as in a wheel."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "convt").mkdir()
    for path in (*PACKAGE.rglob("*.py"), PACKAGE / "py.typed"):
        to = folder / "convt" / path.relative_to(PACKAGE)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    subprocess.run([sys.executable, ROOT / "python/stubs.py", folder / "convt"], check=True)
    return folder


def mypy(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-version", "3.10",
                           *arguments], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "MYPYPATH": str(folder)})


def test_hints(hinted):
    done = mypy(hinted, "-p", "convt")
    assert done.returncode == 0, done.stdout


def test_hints_of_a_user(hinted):
    use = hinted / "use.py"
    use.write_text(Path(__file__).with_name("typed_use.py").read_text(encoding="utf-8"), encoding="utf-8")
    done = mypy(hinted, "use.py")
    assert done.returncode == 0, done.stdout
    use.write_text("import convt\nconvt.ops.gelu(tahn=True)\nconvt.Plan(3)\nconvt.problems.nothing()\n", encoding="utf-8")
    errors = mypy(hinted, "use.py").stdout.splitlines()
    assert [line.split(":")[1] for line in errors if ": error:" in line] == ["2", "3", "4"]


def test_gpu_tests_need_little():
    """A GPU's machine may have numpy, pytest and torch alone: the tests for it are collected without the rest."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(('hypothesis', 'ml_dtypes', 'mypy')))"
    tests = str(ROOT / "tests/python")
    code = f"{blocked}; import pytest; sys.exit(pytest.main(['--collect-only', '-q', '-m', 'gpu', {tests!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT,
                          env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert done.returncode in (0, 5) and "error" not in done.stdout.lower(), done.stdout[-3000:]
    assert "test_torch_gpu.py::test_call_cost" in done.stdout
