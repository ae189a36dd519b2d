"""Measures the costs of tracing: ``python -m benches.python`` from the project's root."""
