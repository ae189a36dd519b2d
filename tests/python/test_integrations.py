"""`inviso.integrations`, as far as no server is needed; `tests/real` runs Gunicorn, Uvicorn and Celery."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inviso import BadArg, runtime
from inviso.integrations._listening import listen
from inviso.integrations.gunicorn import post_fork
from inviso.integrations.uvicorn import Listening
from inviso_tools import HOST


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    yield tmp_path
    runtime.stop_listening()


def node() -> str | None:
    found = runtime.listening()
    return None if found is None else found.node.removesuffix(f"@{HOST}")


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for service, is_worker, environment, name in (
        ("shop:app", True, None, f"shop_app-{os.getpid()}"),
        ("x" * 80, True, None, f"{'x' * 48}-{os.getpid()}"),
        ("celery", False, None, "celery"),
        ("shop", True, "web", f"web-{os.getpid()}"),
        ("shop", True, "{program}.{pid}", f"shop.{os.getpid()}"),
        ("shop", False, "web", "web"),
    ):
        monkeypatch.setenv("INVISO_NODE", environment or "")
        listen(service, is_worker=is_worker)
        assert node() == name
        runtime.stop_listening()


def test_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INVISO_LOG_DIR", str(tmp_path / "logs"))
    listen("shop")
    found = runtime.listening()
    assert found is not None and found.log_dir == str(tmp_path / "logs")


def test_a_process_that_listens_already_is_left_as_it_is() -> None:
    found = runtime.listen("mine")
    post_fork(None, SimpleNamespace(cfg=SimpleNamespace(proc_name="shop")))
    assert runtime.listening() is found and found.node == f"mine@{HOST}"


def test_the_service_goes_on_where_it_can_not_be_traced(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "sockets").mkdir(mode=0o777)
    (folder / "sockets").chmod(0o777)
    listen("shop")
    assert node() is None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("inviso: this process can't be traced from outside: ")


def test_no_failure_of_ours_reaches_the_service(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runtime, "listen", no_thread)
    listen("shop")
    assert capfd.readouterr().err == "inviso: this process can't be traced from outside: can't start new thread\n"


def test_an_application_listens_in_each_process() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        told.append(node())

    told: list[str | None] = []
    listening = Listening(application, "shop")
    assert node() is None
    asyncio.run(listening({"type": "lifespan"}, None, None))
    asyncio.run(listening({"type": "http"}, None, None))
    assert told == [f"shop-{os.getpid()}"] * 2
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        asyncio.run(listening({"type": "http"}, None, None))
        os.write(writer, told[-1].encode() if told[-1] else b"")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(reader, 100).decode() == f"shop-{pid}"
    with pytest.raises(BadArg, match="can't be called"):
        Listening(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("module", "package"), [("celery", "celery"), ("dask", "dask[distributed]")])
def test_a_missing_package_is_named(module: str, package: str) -> None:
    text = (
        f"import sys; sys.modules[{module!r}] = None\ntry:\n    import inviso.integrations.{module}\n"
        f"except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"inviso.integrations.{module} needs the package {package}; install {package}\n"


def test_the_others_import_no_framework() -> None:
    text = (
        "import sys\nfrom inviso.integrations import gunicorn, ray, uvicorn\n"
        "print({'gunicorn', 'uvicorn', 'celery', 'dask', 'ray', 'asyncio'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
