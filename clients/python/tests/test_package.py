"""The package as it is installed."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
import re
import sys
from pathlib import Path

import godwit

FOLDER = Path(godwit.__file__).parent

# What a distribution is called to import it.
MODULES = {"grpcio": "grpc", "protobuf": "google"}


def test_every_module_can_be_imported() -> None:
    for module in pkgutil.walk_packages(godwit.__path__, "godwit."):
        importlib.import_module(module.name)


def test_it_is_typed_and_its_version_is_that_of_the_distribution() -> None:
    assert (FOLDER / "py.typed").exists()
    assert importlib.metadata.version("godwit") == godwit.__version__


def test_what_it_imports_is_declared() -> None:
    declared = set()
    for requirement in importlib.metadata.requires("godwit") or []:
        name = re.split(r"[<>=~! ]", requirement)[0]
        declared.add(MODULES.get(name, name))
    imported = set()
    for source in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == declared


def test_public_names_exist_and_are_explained() -> None:
    for name in godwit.__all__:
        assert getattr(godwit, name) is not None
        if name != "__version__":
            assert (getattr(godwit, name).__doc__ or "").strip(), name
