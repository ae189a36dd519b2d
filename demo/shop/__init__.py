"""A minimal service of several processes: a web process passes orders to workers over sockets."""
