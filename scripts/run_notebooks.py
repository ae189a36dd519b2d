"""Executes every notebook; an error in a cell is an error here."""

import pathlib

import nbformat
from nbclient import NotebookClient

notebooks = sorted(pathlib.Path("notebooks").glob("*.ipynb"))
if not notebooks:
    raise SystemExit("no notebook was found")
for path in notebooks:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    if not any({"image/png", "image/svg+xml"} & set(output.get("data", {})) for output in shown):
        raise SystemExit(f"{path}: nothing was drawn")
    print(f"{path}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran, {len(shown)} outputs")
