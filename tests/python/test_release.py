"""Metadata, versions, and the checks of a release."""

from __future__ import annotations

import importlib.util
import io
import json
import pathlib
import re
import tarfile
import tomllib
import types
import zipfile
from typing import Any

import inviso
import pytest
from inviso import errors

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
PUBLISHED = ["term", "match", "core"]
EXTRAS = {"arrow", "cluster", "docs", "notebook", "otel", "top"}


def manifest(crate: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())


def test_versions_agree() -> None:
    version = PROJECT["project"]["version"]
    assert inviso.__version__ == version
    assert CARGO["package"]["version"] == version
    own = {name: value for name, value in CARGO["dependencies"].items() if name.startswith("inviso-")}
    assert {value["version"] for value in own.values()} == {version}
    for lock in (ROOT / "Cargo.lock", ROOT / "fuzz" / "Cargo.lock"):
        locked = tomllib.loads(lock.read_text())["package"]
        ours = {each["name"]: each["version"] for each in locked if each["name"].startswith("inviso-")}
        assert {ours[name] for name in ours if name != "inviso-fuzz"} == {version}, lock
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert re.fullmatch(rf"Unreleased|{re.escape(version)} - \d{{4}}-\d\d-\d\d", newest[1])


def test_metadata_are_complete() -> None:
    project = PROJECT["project"]
    assert project["authors"] == [{"name": "inviso contributors"}]
    assert CARGO["package"]["authors"] == ["inviso contributors"]
    assert project["urls"].keys() == {"Changelog", "Documentation", "Homepage", "Issues", "Source"}
    assert all(url.startswith(CARGO["package"]["repository"]) for url in project["urls"].values())
    assert project["license"] == CARGO["package"]["license"]
    assert len(set(project["classifiers"])) == len(project["classifiers"])
    assert sorted(project["classifiers"]) == project["classifiers"]
    assert not any(each.startswith("License ::") for each in project["classifiers"]), "the expression says it"
    assert "dependencies" not in project, "the package needs the standard library only"


def test_extras_are_for_users() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras.keys() == EXTRAS
    assert set(errors._EXTRAS.values()) <= EXTRAS
    documented = "".join(path.read_text() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    assert {found for found in re.findall(r"inviso\[(\w+)\]", documented)} <= EXTRAS


def requirements(group: str, groups: dict[str, list[Any]], above: tuple[str, ...] = ()) -> list[str]:
    """What a group asks for, with the groups that it includes."""
    assert group not in above, "a circle"
    found = []
    for each in groups[group]:
        if isinstance(each, str):
            found.append(each)
        else:
            assert each.keys() == {"include-group"}
            found += requirements(each["include-group"], groups, (*above, group))
    return found


def test_dependency_groups() -> None:
    groups = PROJECT["dependency-groups"]
    for group in groups:
        names = [re.match(r"[\w-]+", each) for each in requirements(group, groups)]
        assert names and all(names), group
    assert not {"pytest", "ruff", "mypy"} - {re.split(r"[\W]", each)[0] for each in requirements("test", groups)}
    # what makes a release is the same each time
    assert all("==" in each for group in ("release", "audit") for each in groups[group])
    for script in ("ready.sh", "dist.sh", "audit.sh"):
        used = re.findall(r"--group \"?(?:\S*:)?([\w-]+)", (ROOT / "scripts" / script).read_text())
        assert used and set(used) <= groups.keys(), script


def test_published_crates_have_a_page_and_stand_alone() -> None:
    for crate in PUBLISHED:
        package = manifest(crate)["package"]
        assert package["description"] and "publish" not in package
        assert 1 <= len(package["keywords"]) <= 5 and all(len(each) <= 20 for each in package["keywords"])
        assert package["categories"]
        page = (ROOT / "rust" / crate / package["readme"]).read_text()
        assert page.startswith(f"# inviso-{crate}\n") and "```rust" in page
        assert "Its examples are tests" in (ROOT / "rust" / crate / "src" / "lib.rs").read_text()
        needed = {name for name in manifest(crate)["dependencies"] if name.startswith("inviso-")}
        assert needed <= {f"inviso-{other}" for other in PUBLISHED}
        # a dependency of its tests that has a version would have to be published first
        for name, value in manifest(crate).get("dev-dependencies", {}).items():
            assert not name.startswith("inviso-") or value.keys() <= {"path", "features"}, name


def test_the_workflow_pins_its_actions_and_keeps_no_token() -> None:
    [path] = (ROOT / ".github" / "workflows").glob("*.yml")
    text = path.read_text()
    uses = re.findall(r"uses: (\S+)(.*)", text)
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    assert "\npermissions: {}\n" in text
    assert "secrets." not in text
    before, publish = text.split("\n  publish:\n")
    assert "id-token" not in before and "id-token: write" in publish
    assert "needs: [test, audit, dist, try]" in publish
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make (\w+)", text)) <= targets


# -- scripts/check_dist.py


@pytest.fixture(scope="module")
def check() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("check_dist", ROOT / "scripts" / "check_dist.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NATIVE = "inviso/_native.cpython-313-x86_64-linux-gnu.so"
METADATA = """\
Metadata-Version: 2.4
Name: inviso
Version: 1.0
Author: a
Summary: s
Keywords: k
License-Expression: MIT
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Requires-Python: >=3.11
Requires-Dist: pyarrow ; extra == 'arrow'
Project-URL: Changelog, u
Project-URL: Documentation, u
Project-URL: Homepage, u
Project-URL: Issues, u
Project-URL: Source, u
Description-Content-Type: text/markdown

# inviso
"""
BOM = {"bomFormat": "CycloneDX", "components": [{"name": "inviso-core"}, {"name": "pyo3"}]}


def a_wheel(folder: pathlib.Path, changes: dict[str, str | None]) -> pathlib.Path:
    """A wheel with these files; None leaves one out."""
    files: dict[str, str | None] = {
        "inviso/__init__.py": "",
        NATIVE: "",
        "inviso-1.0.data/purelib/inviso_start.pth": "",
        "inviso-1.0.dist-info/METADATA": METADATA,
        "inviso-1.0.dist-info/RECORD": "",
        "inviso-1.0.dist-info/sboms/inviso-py.cyclonedx.json": json.dumps(BOM),
        **changes,
    }
    path = folder / "inviso-1.0-cp313-cp313-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            if content is not None:
                file.writestr(name, content)
    return path


def an_sdist(folder: pathlib.Path, *names: str) -> pathlib.Path:
    path = folder / "inviso-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for name in names:
            file.addfile(tarfile.TarInfo(f"inviso-1.0/{name}"), io.BytesIO())
    return path


WHOLE = (
    *("Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "Makefile", "pyproject.toml", "tests/python/conftest.py"),
    *("python/inviso/__init__.py", "packaging/data/purelib/inviso_start.pth", "rust/py/src/lib.rs"),
)


def test_a_whole_wheel_passes(check: types.ModuleType, tmp_path: pathlib.Path) -> None:
    expected = check.of_sdist(an_sdist(tmp_path, *WHOLE))
    assert expected == {"inviso/__init__.py", "inviso_start.pth"}
    assert check.check_wheel(a_wheel(tmp_path, {}), expected) == "3 files, 2 crates"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"inviso/__init__.py": None}, "differ from the sdist"),
        ({"tests/__init__.py": ""}, "differ from the sdist"),
        ({NATIVE: None}, "differ from the sdist"),
        ({"inviso-1.0.data/purelib/inviso_start.pth": None}, "differ from the sdist"),
        ({"inviso-1.0.dist-info/sboms/inviso-py.cyclonedx.json": None}, "0 lists of crates"),
        ({"inviso-1.0.dist-info/sboms/inviso-py.cyclonedx.json": '{"bomFormat": "CycloneDX"}'}, "form of CycloneDX"),
        ({"inviso-1.0.dist-info/METADATA": METADATA.replace("Author: a\n", "")}, "no Author"),
        ({"inviso-1.0.dist-info/METADATA": METADATA.replace(" ; extra == 'arrow'", "")}, "requires"),
        ({"inviso-1.0.dist-info/METADATA": METADATA.replace("Project-URL: Issues, u\n", "")}, "the URLs"),
        ({"inviso-1.0.dist-info/METADATA": METADATA.replace("License-File: LICENSE-MIT\n", "")}, "both licences"),
    ],
)
def test_a_wheel_with_a_fault_is_refused(
    check: types.ModuleType, tmp_path: pathlib.Path, changes: dict[str, str | None], why: str
) -> None:
    expected = check.of_sdist(an_sdist(tmp_path, *WHOLE))
    with pytest.raises(SystemExit, match=why):
        check.check_wheel(a_wheel(tmp_path, changes), expected)


def test_an_sdist_that_lacks_files_is_refused(check: types.ModuleType, tmp_path: pathlib.Path) -> None:
    with pytest.raises(SystemExit, match="Makefile"):
        check.of_sdist(an_sdist(tmp_path, *(name for name in WHOLE if name != "Makefile")))


def test_the_age_of_a_tag(check: types.ModuleType) -> None:
    tags = ["manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64.manylinux_2_31_x86_64", "linux_x86_64"]
    ages = [check.level(tag) for tag in tags]
    assert ages == sorted(ages) and ages[-1] > (1000,)


def test_a_wheel_for_musl_needs_its_library_by_either_name(check: types.ModuleType) -> None:
    shown = {"overall_tag": "linux_x86_64", "sym_tag": "musllinux_1_2_x86_64", "external_libs": {"libc.so": None}}
    assert check.needed(shown) == "musllinux_1_2_x86_64"
    assert check.needed({**shown, "external_libs": {"libc.so": None, "libssl.so.3": None}}) == "linux_x86_64"
    by_alpine = {"overall_tag": "musllinux_1_2_x86_64", "external_libs": {}}
    assert check.needed({**shown, **by_alpine}) == "musllinux_1_2_x86_64"
