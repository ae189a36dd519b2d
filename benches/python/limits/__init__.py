"""The least that a callback can cost, in C; and how it is built."""
