"""A service of several processes, as small as one can be: a web process hands orders to workers over sockets."""
