"""What :mod:`inviso.log` is made of.

``_read`` reads logs, ``_client`` follows a trace port, ``_files`` finds the files of a log, ``_stats`` counts messages, ``_text``
shows them.
"""
