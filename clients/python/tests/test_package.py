"""The package as it is installed."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import godwit
from serving import PATIENCE, Server

FOLDER = Path(godwit.__file__).parent

# Import names of distributions that are imported by another name.
MODULES = {"grpcio": "grpc", "protobuf": "google"}


def test_every_module_can_be_imported() -> None:
    for module in pkgutil.walk_packages(godwit.__path__, "godwit."):
        importlib.import_module(module.name)


def test_it_is_typed_and_its_version_is_that_of_the_distribution() -> None:
    assert (FOLDER / "py.typed").exists()
    assert importlib.metadata.version("godwit-client") == godwit.__version__


def test_what_it_imports_is_declared() -> None:
    always: set[str] = set()
    extras: set[str] = set()
    for requirement in importlib.metadata.requires("godwit-client") or []:
        name = re.split(r"[<>=~! ;]", requirement)[0]
        (extras if "extra ==" in requirement else always).add(MODULES.get(name, name))
    assert always == {"websockets"}
    imported = set()
    for source in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    given = {"httpx", "godwit"}  # by the program, which hands over a client of it, and by the package itself
    assert imported - sys.stdlib_module_names == always | extras | given


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("google", "grpc", "httpx", "reactivex"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from godwit import Client

url = sys.argv[1]
with Client(url, api_key="dev") as client:
    receipt = client.publish("core", title="Hello")
    with client.start_listening("core", print):
        print(client.wait(receipt.id, "core").status)

def use_grpc():
    Client(url, grpc_address="localhost:50051")

def use_notify():
    import godwit.notify

for what in use_grpc, use_notify:
    try:
        what()
    except ImportError as e:
        print(e)
"""


def test_websockets_are_enough_and_what_more_is_wanted_is_said(server: Server) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, server.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, status, grpc, notify = done.stdout.splitlines()
    assert status == "acked"
    assert grpc == "gRPC needs the package 'grpc', which is not installed: pip install 'godwit-client[grpc]'"
    assert notify == (
        "godwit.notify needs the package 'reactivex', which is not installed: pip install 'godwit-client[notify]'"
    )


def test_public_names_exist_and_are_explained() -> None:
    for name in godwit.__all__:
        assert getattr(godwit, name) is not None
        if name != "__version__":
            assert (getattr(godwit, name).__doc__ or "").strip(), name
