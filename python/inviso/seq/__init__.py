"""What :mod:`inviso.seq_trace` is made of.

``_tokens`` has the token of a process, ``_label`` sets one for a block, ``_nodes`` carries it to other processes. ``_merge``
reads events and joins them, ``_text``, ``_table`` and ``_chart`` show them.
"""
