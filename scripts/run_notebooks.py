"""Executes every notebook; an error in a cell is an error here."""

import pathlib

import nbformat
from nbclient import NotebookClient

for path in sorted(pathlib.Path("notebooks").glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    print(f"{path}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
