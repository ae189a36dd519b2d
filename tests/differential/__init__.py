"""Match specifications, made up and run both on this system and on a real Erlang node."""
