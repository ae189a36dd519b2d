"""The parts of :mod:`inviso.log`.

``_read`` reads logs, ``_client`` follows a trace port, ``_files`` finds the files of a log, ``_stats`` counts messages,
``_text`` formats them.
"""
