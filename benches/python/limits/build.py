"""Builds ``limits.c`` for the interpreter that runs this file, when it isn't there yet.

python benches/python/limits/build.py       # prints the folder to put on sys.path
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent


class CannotBuild(Exception):
    """Something that the build needs is missing; the message says what and how to get it."""


def build() -> Path:
    """The folder that holds the extension, built if it is missing or older than its source.

    Raises:
        CannotBuild: no C compiler, no headers of this Python, or the compiler failed.
    """
    source = HERE / "limits.c"
    folder = HERE / "build" / str(sysconfig.get_config_var("SOABI"))
    target = folder / f"_limits{sysconfig.get_config_var('EXT_SUFFIX')}"
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return folder
    compiler = _compiler()
    include = Path(sysconfig.get_paths()["include"])
    version = "{}.{}".format(*sys.version_info)
    if not (include / "Python.h").exists():
        raise CannotBuild(f"{include}/Python.h is missing; install Python's headers (Debian: python{version}-dev)")
    folder.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    command = [*compiler, "-O2", "-fPIC", "-shared", "-std=gnu11", "-Wall", f"-I{include}"]
    # The interpreter's frames are described in headers that some installations leave out.
    internal = ["-DLIMITS_FRAMES", "-DPy_BUILD_CORE_MODULE", f"-I{include / 'internal'}"]
    for extra in (internal, []):
        done = subprocess.run(
            [*command, *extra, str(source), "-o", str(fresh), "-lpthread"], capture_output=True, text=True
        )
        if done.returncode == 0:
            fresh.replace(target)
            return folder
    raise CannotBuild(f"{shlex.join(compiler)} failed:\n{done.stderr}")


def _compiler() -> list[str]:
    named = os.environ.get("CC")
    for candidate in [named] if named else ["cc", "gcc", "clang"]:
        words = shlex.split(candidate)
        if shutil.which(words[0]):
            return words
    raise CannotBuild(
        f"no C compiler: {named or 'cc'} is not found; install one (Debian: apt-get install gcc) or set CC"
    )


if __name__ == "__main__":
    try:
        print(build())
    except CannotBuild as error:
        sys.exit(f"limits: {error}")
