"""Real programs, each with a library with much C code, under each tool: they behave as without it."""
