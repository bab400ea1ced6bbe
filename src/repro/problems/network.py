"""What the environment says of the network: whose certificates are trusted, and which proxy is asked."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

#: Variables that requests reads the file or folder of certificates from, in place of the package certifi's.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def flaw_of_environment(url: str) -> str | None:
    """Return what is wrong with the certificates or the proxy that the environment names; None where nothing is."""
    return flaw_of_bundle() or flaw_of_proxy(url)


def what_is_trusted() -> str:
    """Return what the certificates of servers are held against, a variable as `NAME=path`."""
    named = _bundle()
    return "=".join(named) if named else f"the certificates of the package certifi; {BUNDLES[0]} names others"


def flaw_of_bundle() -> str | None:
    """Return why what the environment names has no certificates; None where it has, or where it names nothing.

    A folder is looked into for a certificate once a server shows one, so here it is always right.
    """
    named = _bundle()
    if named is None:
        return None
    path = named[1]
    try:
        ssl.create_default_context(cafile=None if Path(path).is_dir() else path, capath=path)
    except OSError as error:
        return f"no certificates in {what_is_trusted()} ({error.strerror or error})"
    return None


def _bundle() -> tuple[str, str] | None:
    return next(((name, os.environ[name]) for name in BUNDLES if os.environ.get(name)), None)


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address, as `NAME=value` without user and password."""
    value = _proxy_value(url)
    if value is None:
        return None
    names = (f"{url.partition(':')[0].lower()}_proxy", "all_proxy")
    name = next((name for name in os.environ if name.lower() in names and os.environ[name] == value), "proxy")
    before, at, host = value.rpartition("@")
    scheme, slashes, _ = before.partition("://")
    return f"{name}={scheme + slashes if slashes else ''}{host}" if at else f"{name}={value}"


def flaw_of_proxy(url: str) -> str | None:
    """Return why what the environment names as proxy for an address can be none; None where it can."""
    from requests.adapters import HTTPAdapter  # slow to import
    from requests.utils import prepend_scheme_if_needed
    from urllib3.util import parse_url

    value = _proxy_value(url)
    if value is None:
        return None
    try:
        address = prepend_scheme_if_needed(value, "http")
        HTTPAdapter().proxy_manager_for(address)
        reason = "" if parse_url(address).host else "it names no host"
    except ValueError as error:
        # what urllib3 says of an address repeats it, with the password that it may have
        reason = str(error) if "SOCKS" in str(error) else "an address such as http://proxy.example:3128 is expected"
    return f"malformed proxy {proxy_of(url)}: {reason}" if reason else None


def _proxy_value(url: str) -> str | None:
    from requests.utils import get_environ_proxies, select_proxy

    try:
        return select_proxy(url, get_environ_proxies(url)) or None
    except ValueError:  # of an address that is malformed itself
        return None
