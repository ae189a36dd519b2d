"""Checks the wheels and the sdist of a folder, for scripts/dist.sh.

    python scripts/check_dist.py FOLDER

A wheel has exactly the modules of the sdist and one native library, the licences, a list of its crates (CycloneDX), and
metadata without requirements, whose page has absolute links only. Its library needs no symbol of a C library that is
newer than the wheel's tag says: auditwheel reads them.
"""

from __future__ import annotations

import email
import email.message
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile
from typing import Any

LICENCES = {"LICENSE-APACHE", "LICENSE-MIT"}
KEYS = ("Author", "Description-Content-Type", "Keywords", "License-Expression", "Requires-Python", "Summary")


def refuse(where: pathlib.Path, text: str) -> None:
    raise SystemExit(f"{where.name}: {text}")


def of_sdist(path: pathlib.Path) -> set[str]:
    """The files that a wheel has from the sdist, by the names that they have in it."""
    with tarfile.open(path) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    if missing := {"Cargo.lock", "Makefile", "pyproject.toml", "tests/python/conftest.py", *LICENCES} - set(names):
        refuse(path, f"{sorted(missing)} are missing")
    package = {name.removeprefix("python/") for name in names if name.startswith("python/inviso/")}
    data = {name for name in names if name.startswith("packaging/data/purelib/")}
    return package | {re.sub(r"^packaging/data/purelib/", "", name) for name in data}


def check_metadata(path: pathlib.Path, metadata: email.message.Message) -> None:
    for key in KEYS:
        if not metadata[key]:
            refuse(path, f"its metadata has no {key}")
    urls = {value.partition(",")[0] for value in metadata.get_all("Project-URL", [])}
    if urls != {"Changelog", "Documentation", "Homepage", "Issues", "Source"}:
        refuse(path, f"its metadata has the URLs {sorted(urls)}")
    if needed := [value for value in metadata.get_all("Requires-Dist", []) if "extra ==" not in value]:
        refuse(path, f"it requires {needed}")
    page = str(metadata.get_payload())
    if not page or (relative := re.findall(r"\]\((?!https?:|#)([^)]*)\)", page)):
        refuse(path, f"these links of its page lead nowhere: {relative}" if page else "it has no page")
    if set(metadata.get_all("License-File", [])) != LICENCES:
        refuse(path, "its metadata does not name both licences")


def check_crates(path: pathlib.Path, bom: dict[str, object]) -> int:
    """The number of crates that the list has."""
    components = bom.get("components")
    if bom.get("bomFormat") != "CycloneDX" or not isinstance(components, list):
        refuse(path, "its list of crates is not in the form of CycloneDX")
        raise AssertionError
    if missing := {"inviso-core", "pyo3"} - {each["name"] for each in components}:
        refuse(path, f"its list of crates lacks {sorted(missing)}")
    return len(components)


def check_wheel(path: pathlib.Path, expected: set[str]) -> str:
    with zipfile.ZipFile(path) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
        info = next(name.partition("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(file.read(f"{info}/METADATA"))
        lists = [name for name in names if name.startswith(f"{info}/sboms/")]
        if len(lists) != 1:
            refuse(path, f"it has {len(lists)} lists of crates, not one")
        crates = check_crates(path, json.loads(file.read(lists[0])))
    check_metadata(path, metadata)
    own = {re.sub(r"^inviso-[^/]*\.data/purelib/", "", name) for name in names if not name.startswith(f"{info}/")}
    native = {name for name in own if re.fullmatch(r"inviso/_native\.[\w-]+\.so", name)}
    if len(native) != 1 or own - native != expected:
        refuse(path, f"these differ from the sdist: {sorted((own - native) ^ expected)}; native: {sorted(native)}")
    return f"{len(own)} files, {crates} crates"


def check_symbols(path: pathlib.Path) -> str:
    words = [sys.executable, "-m", "auditwheel", "show", "--json", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    own, real = path.stem.split("-")[-1], needed(shown)
    if level(real) > level(own):
        refuse(path, f"its library needs {real}\n{done.stdout}")
    if own.startswith("manylinux") and "libgcc_s.so.1" not in shown["versioned_symbols"]:
        # glibc unwinds the threads that the interpreter ends; a second unwinder in the library crashes there
        refuse(path, "its library has an unwinder of its own, and does not use the system's libgcc_s.so.1")
    return f"symbols of {real}"


def needed(shown: dict[str, Any]) -> str:
    """The tag of what a wheel needs, from what auditwheel shows of it.

    Of musl auditwheel knows Alpine's name only, `libc.musl-x86_64.so.1`; zig links musl's own name. The loader of musl
    takes either for its own library, on Alpine and elsewhere.

    >>> shown = {"overall_tag": "linux_x86_64", "sym_tag": "musllinux_1_2_x86_64", "external_libs": {"libc.so": None}}
    >>> needed(shown), needed({**shown, "external_libs": {"libc.so": None, "libz.so.1": None}})
    ('musllinux_1_2_x86_64', 'linux_x86_64')
    """
    return shown["sym_tag" if set(shown["external_libs"]) == {"libc.so"} else "overall_tag"]


def level(tag: str) -> tuple[int, ...]:
    """The version of the C library of a tag; the names of old tags are older than all.

    >>> level("manylinux_2_28_x86_64"), level("musllinux_1_2_aarch64"), level("manylinux2014_x86_64")
    ((2, 28), (1, 2), (2, 17))
    """
    tag = tag.partition(".")[0]
    old = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    found = re.match(r"(?:many|musl)linux_(\d+)_(\d+)_", tag)
    if found:
        return int(found[1]), int(found[2])
    return old.get(tag.partition("_")[0], (sys.maxsize,))


def main(folder: pathlib.Path) -> None:
    [sdist] = folder.glob("inviso-*.tar.gz")
    expected = of_sdist(sdist)
    wheels = sorted(folder.glob("inviso-*.whl"))
    if not wheels:
        refuse(folder, "there are no wheels")
    for path in wheels:
        print(f"{path.name}: {check_wheel(path, expected)}, {check_symbols(path)}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
