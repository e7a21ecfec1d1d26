"""The programs of the documentation run as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from serving import PATIENCE, ROOT, NewServer

PAGES = [ROOT / "clients" / "python" / "README.md", ROOT / "docs" / "guides" / "python.md"]

# Blocks that say ```py are for reading only.
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_programs_of_a_page(page: Path, new_server: NewServer, tmp_path: Path) -> None:
    server = new_server()
    programs = BLOCK.findall(page.read_text())
    assert len(programs) > 1
    for program in programs:
        here = program.replace("localhost:8080", server.http)
        here = here.replace("port=50051", f"port={server.grpc.rpartition(':')[2]}")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", here],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{program}\n{done.stderr}"
        assert done.stdout
