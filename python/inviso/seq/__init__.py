"""The parts of :mod:`inviso.seq_trace`.

``_tokens`` has the token of a process, ``_label`` sets one for a block, ``_nodes`` carries it to other nodes.
``_merge`` collects and merges events; ``_text``, ``_table`` and ``_chart`` show them.
"""
