"""Sphinx: the README, docs/, the notebooks and the docstrings as a site. `make docs` builds it in target/site."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import types
from importlib.metadata import version as version_of
from typing import Any

import inviso
import sphinx.application
from sphinx.domains.python import PythonDomain

ROOT = pathlib.Path(__file__).parents[2]

project = "inviso"
author = "inviso contributors"
version = release = version_of("inviso")

# The source folder is the repository, so that links between pages are the same here and in the repository.
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**", "notebooks/*.ipynb"]
exclude_patterns = [
    *("target", "rust", "python", "tests", "benches", "fuzz", "demo", "packaging", "scripts", "docs/site"),
    *sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name.startswith(".")),
    "**/.ipynb_checkpoints",
]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
templates_path = [
    str(pathlib.Path(__file__).parent / "templates")
]  # absolute: autosummary takes it from the source folder
html_additional_pages = {"index": "index.html"}

myst_heading_anchors = 4
myst_links_external_new_tab = False

# Notebooks run once, and again when their code has changed.
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "target" / "site-notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # the defaults would be loaded from the network

# The pages of the API are made from the docstrings, in a folder that git ignores.
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["aiohttp", "celery", "dask", "distributed", "httpx", "opentelemetry", "ray", "requests"]
napoleon_use_rtype = False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # an annotation `bytes` is also the name of three attributes
python_maximum_signature_line_length = 100
# Annotations name the standard library, aliases of types and private classes. All other references must have a target.
nitpick_ignore_regex = [
    ("py:class", r"(?!inviso\.)[\w.]+(\[.*)?"),
    ("py:class", r"inviso(\.\w+)*\._\w+.*"),
    ("py:func", r"(sys|threading)\.\w+"),
    ("py:data", r"(inviso\.runtime\.FLAGS|LIMIT|LOST)"),  # autodoc leaves out plain values of other modules
]

# A name of `inviso` that another public module has is described with that module.
LISTED = re.findall(r"^   (inviso\.[\w.]+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
MODULES = [name for name in LISTED if not name.startswith(("inviso.integrations.", "inviso.propagate."))]
ALIASES = {
    name: f"{module}.{name}"
    for module in MODULES
    for name in set(inviso.__all__) & set(importlib.import_module(module).__all__)
}
autosummary_context = {"elsewhere": sorted(ALIASES)}

html_theme = "furo"
html_title = f"inviso {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

KEPT: dict[str, list[str]] = {}


def with_contents(app: sphinx.application.Sphinx, name: str, source: list[str]) -> None:
    """Adds a hidden table of contents to pages that have a plain list in the repository.

    The README's is made of its own tables of pages: one part for each heading with a table below it.
    """
    if name == "docs/decisions":
        source[0] += contents(":glob:\n\ndecisions/*")
    if name != root_doc:
        return
    parts = re.split(r"^##+ (.+)$", source[0], flags=re.MULTILINE)
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        pages = re.findall(r"^\| \[[^\]]+\]\(((?:docs|notebooks)/[^)#]+)\) \|", text, re.MULTILINE)
        if pages:
            source[0] += contents(f":caption: {title}\n\n" + "\n".join(os.path.splitext(page)[0] for page in pages))
    source[0] += contents(":caption: The project\n\nCHANGELOG\nCONTRIBUTING")


def contents(text: str) -> str:
    return f"\n```{{toctree}}\n:hidden:\n{text}\n```\n"


def load_names(app: sphinx.application.Sphinx) -> None:
    """Modules load some of their names at the first use; autodoc sees only what is loaded.

    What is known by its package has its source in a module of it, where autodoc looks by `__module__`.
    """
    for name in ["inviso", *MODULES]:
        module = importlib.import_module(name)
        for public in module.__all__:
            found = getattr(module, public)
            setattr(module, public, found)
            if getattr(found, "__module__", None) == name and isinstance(found, type | types.FunctionType):
                found.__module__ = source_of(module, found)


def source_of(package: types.ModuleType, found: type | types.FunctionType) -> str:
    """The module that something is written in."""
    if isinstance(found, types.FunctionType):
        return str(found.__globals__["__name__"])
    for path in pathlib.Path(package.__file__ or "").parent.glob("_[!_]*.py") if hasattr(package, "__path__") else ():
        if re.search(rf"^class {found.__name__}\b", path.read_text(), re.MULTILINE):
            return f"{package.__name__}.{path.stem}"
    return package.__name__


def keep_text(app: sphinx.application.Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    if what in ("attribute", "data", "property"):
        KEPT[name] = list(lines)


def put_back(app: sphinx.application.Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes the text before a colon for the type of an attribute: here no text of an attribute has a type."""
    lines[:] = KEPT.pop(name, lines)


def without_private(
    app: sphinx.application.Sphinx,
    what: str,
    name: str,
    found: Any,
    options: Any,
    signature: str | None,
    result: str | None,
) -> tuple[str, None] | None:
    """Hides the constructor of a class that only this package can make: it takes arguments of private types."""
    shown = (signature or "").replace("inviso.cluster._answers.", "inviso.cluster.")  # where public names are written
    return ("", None) if what == "class" and re.search(r"\b_[A-Za-z]|\bnative\b", shown) else None


def by_alias(app: sphinx.application.Sphinx, env: Any, node: Any, text: Any) -> Any:
    """`inviso.Cluster` leads to `inviso.cluster.Cluster`."""
    found = ALIASES.get(node.get("reftarget", "").removeprefix("inviso."))
    if node.get("refdomain") != "py" or found is None:
        return None
    domain: PythonDomain = env.get_domain("py")
    return domain.resolve_xref(env, node.get("refdoc", root_doc), app.builder, "obj", found, node, text)


def setup(app: sphinx.application.Sphinx) -> None:
    app.connect("builder-inited", load_names, priority=100)
    app.connect("source-read", with_contents)
    app.connect("autodoc-process-docstring", keep_text, priority=100)
    app.connect("autodoc-process-docstring", put_back, priority=900)
    app.connect("autodoc-process-signature", without_private)
    app.connect("missing-reference", by_alias)
