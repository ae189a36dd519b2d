"""What tracing costs, measured: ``python -m benches.python`` from the project's root."""
