"""Imports and defines functions only after the profiler was armed."""

import textwrap

exec("def made():\n    return 1\n")


def main() -> None:
    from json import decoder

    for _ in range(3):
        decoder.JSONDecoder().decode("[1]")
    made()  # noqa: F821
    textwrap.dedent(" x")


main()
