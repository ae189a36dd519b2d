"""A prepared process: it carries out lines from its standard input."""

from __future__ import annotations

import sys
import threading

import inviso
from inviso import etf, meta, runtime


def assoc_id(pid, reference):
    return reference


def call_assoc_id(pid, what, data):
    _, (who, reference), ts = what
    return "ok", data, meta.alias(who, reference, ts)


def unlisted(pid, what, data):
    return "ok", data, etf.dumps("unlisted")


def main():
    node, log_dir, *allow = sys.argv[1:]
    runtime.listen(node, log_dir=log_dir, allow=tuple(allow))
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["assoc", reference]:
                assoc_id(inviso.self(), reference)
            case ["register", name]:
                inviso.register(name, inviso.self())
            case ["thread", name]:
                thread = threading.Thread(target=lambda: None, name=name)
                thread.start()
                thread.join()
        print("done", flush=True)

