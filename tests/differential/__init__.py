"""Generated match specifications, run on this system and on a real Erlang node."""
