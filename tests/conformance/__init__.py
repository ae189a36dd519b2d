"""Cases recorded from a real Erlang/OTP, executed on this system: ``python -m tests.conformance FILE...``."""
