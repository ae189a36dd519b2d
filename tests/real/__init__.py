"""Real programs, each with a library that has much C in it, under each tool: they do what they do without it."""
