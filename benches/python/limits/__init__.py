"""The lower limits of a callback's costs, in C; and the build of that code."""
