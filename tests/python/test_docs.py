"""Every example in the docstrings, the README and the docs runs."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import json
import pathlib
import re
import subprocess
import sys
import threading

import pytest

import inviso

ROOT = pathlib.Path(__file__).parents[2]
GLOBALS = {"inviso": inviso, "json": json, "asyncio": asyncio, "threading": threading}


@pytest.mark.parametrize("name", ["inviso", "inviso.errors", "inviso.terms", "inviso.process", "inviso.trace"])
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs=dict(GLOBALS), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/sessions.md"])
def test_pages(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    program = "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_pages_name_only_pages_that_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+\.md)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
