"""Access rights: certificates of agents, and the rights that a host gives to their names."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from typing import Any

from inviso._link._rights import CLASSES
from inviso.errors import BadArg, shown

from ._keys import PRESENCE, Keys

__all__ = ["Rights", "Tls", "read_rights", "rules"]

Rights = dict[str, dict[str, list[str]]]
"""Rights by the name in a certificate: for each class of requests, patterns of the nodes of this host."""

_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,64}\Z")


@dataclass(frozen=True)
class Tls:
    """PEM files: the authority that signs the certificates of all agents, this agent's certificate, and its key."""

    ca: str
    certificate: str
    key: str

    def checked(self) -> Tls:
        """Returns itself. ``BadArg`` if a file can't be read."""
        for name, path in (("ca", self.ca), ("certificate", self.certificate), ("key", self.key)):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise BadArg("agent", name, f"{shown(path)} can't be read: {error.strerror}") from None
        return self

    def settings(self) -> dict[str, Any]:
        """The settings for zenoh: both sides of a connection need a certificate."""
        return {
            "root_ca_certificate": os.path.abspath(self.ca),
            "enable_mtls": True,
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
            **{f"{side}_certificate": os.path.abspath(self.certificate) for side in ("listen", "connect")},
            **{f"{side}_private_key": os.path.abspath(self.key) for side in ("listen", "connect")},
        }


def read_rights(path: str) -> Rights:
    """Reads rights from a TOML file, which has a table for each name. ``BadArg`` if it is malformed.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write('[ops]\\nwatch = ["*"]\\ntrace = ["shop-*"]'), file.flush()
    ...     read_rights(file.name)
    {'ops': {'watch': ['*'], 'trace': ['shop-*']}}
    """
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise BadArg("agent", "rights", f"{shown(path)} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadArg("agent", "rights", f"{path} is not TOML: {error}") from None
    for name, given in found.items():
        if not isinstance(given, dict) or not all(each in CLASSES for each in given):
            why = f"{path}: {name}: pass a table with {', '.join(CLASSES)}"
            raise BadArg("agent", "rights", why)
        for right, patterns in given.items():
            if not isinstance(patterns, list) or not all(
                isinstance(one, str) and _PATTERN.match(one) for one in patterns
            ):
                why = f"{path}: {name}, {right}: pass a list of names of nodes without a host, which may have *"
                raise BadArg("agent", "rights", why)
    return found


def rules(keys: Keys, rights: Rights) -> dict[str, Any]:
    """The rules of zenoh that give exactly these rights to the names in certificates.

    zenoh checks the certificate of the neighbour: what a router forwards has the rights of the router.
    """
    made: list[dict[str, Any]] = []
    subjects: list[dict[str, Any]] = [{"id": "anybody"}]
    policies: list[dict[str, Any]] = []

    def rule(subject: str, flow: str, messages: list[str], names: list[str]) -> None:
        if names:
            made.append(
                {
                    "id": f"rule-{len(made)}",
                    "permission": "allow",
                    "flows": [flow],
                    "messages": messages,
                    "key_exprs": names,
                }
            )
            policies.append({"rules": [made[-1]["id"]], "subjects": [subject]})

    everything = [f"{keys.top}/**", f"{PRESENCE}/**"]
    # requests of this host to others, and their answers
    rule(
        "anybody",
        "egress",
        ["query", "liveliness_query", "declare_subscriber", "declare_liveliness_subscriber", "reply"],
        everything,
    )
    rule("anybody", "ingress", ["reply", "liveliness_token", "put", "declare_queryable"], everything)
    # public facts of this host, which need no right: that it has an agent, and its time
    rule("anybody", "egress", ["liveliness_token"], [keys.agents(), f"{PRESENCE}/**"])
    rule("anybody", "egress", ["declare_queryable"], [keys.clock()])
    rule("anybody", "ingress", ["query"], [keys.clock()])
    rule("anybody", "ingress", ["liveliness_query", "declare_subscriber", "declare_liveliness_subscriber"], everything)
    for number, (name, given) in enumerate(rights.items()):
        subject = f"name-{number}"
        subjects.append({"id": subject, "cert_common_names": [name]})
        asked = [keys.of_nodes(pattern, right) for right, patterns in given.items() for pattern in patterns]
        rule(subject, "ingress", ["query"], asked)
        rule(subject, "egress", ["declare_queryable"], [keys.of_host()] if asked else [])
        watched = [keys.of_nodes(pattern, what) for pattern in given.get("watch", []) for what in ("alive", "event")]
        rule(subject, "egress", ["liveliness_token", "put"], watched)
    return {"enabled": True, "default_permission": "deny", "rules": made, "subjects": subjects, "policies": policies}
