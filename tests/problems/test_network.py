"""What the environment says of certificates and proxies: where it is wrong, the variable and its value are named."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems import repositories
from repro.problems.fetch import BUNDLES, Address, Refused, Wanted, download, flaw_of_environment, obtain, proxy_of

pytestmark = pytest.mark.usefixtures("no_mirror", "plain_environment")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes a certificate")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*BUNDLES, *PROXIES, *(name.lower() for name in PROXIES)):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine that it signed itself, its key beside it."""
    path = tmp_path_factory.mktemp("certificate") / "here.pem"
    subprocess.run(
        (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
            f"-addext subjectAltName=IP:127.0.0.1 -keyout {path.with_suffix('.key').name} -out {path.name}"
        ).split(),
        cwd=path.parent,
        check=True,
        capture_output=True,
    )
    return path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def secure(certificate: Path) -> Iterator[str]:
    """The address of a server that has that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Quiet) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that does not trust it
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def refusal(url: str, tmp_path: Path, retries: int = 5) -> str:
    """Return why a download fails; with so many retries of something that passes it would take half a minute."""
    with pytest.raises(Refused) as caught:
        download(url, tmp_path / "downloaded", Fetch(retries=retries, timeout=5))
    return str(caught.value)


def spoil(folder: Path, kind: str) -> Path:
    """Make something in a folder that has no certificate."""
    path = folder / "bundle.pem"
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "rubbish":
            path.write_bytes(b"\xff\x00rubbish" * 50)
        case "cut":
            path.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n")
        case "link to itself":
            path.symlink_to(path)
        case "below a file":
            path.write_bytes(b"")
            return path / "bundle.pem"
    return path


@needs_openssl
@pytest.mark.parametrize("name", BUNDLES)
@pytest.mark.parametrize("kind", ["missing", "empty", "rubbish", "cut", "link to itself", "below a file"])
def test_a_bundle_that_has_no_certificates_is_named(
    name: str, kind: str, secure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spoil(tmp_path, kind)
    monkeypatch.setenv(name, str(path))
    message = refusal(secure, tmp_path)
    assert message.startswith(f"no certificates in {name}={path} (")
    assert message == flaw_of_environment(secure)


@pytest.mark.wording
@needs_openssl
def test_a_folder_without_certificates_and_a_bundle_without_the_servers_are_named(
    secure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    assert f"not trusted (self-signed certificate) by REQUESTS_CA_BUNDLE={tmp_path}" in refusal(secure, tmp_path)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    assert "by the certificates of the package certifi; REQUESTS_CA_BUNDLE names others" in refusal(secure, tmp_path)


@needs_openssl
@pytest.mark.parametrize("other", ["SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"])
def test_the_right_bundle_does_whatever_the_others_are(
    other: str, secure: str, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    monkeypatch.setenv(other, "/nonexistent.pem")
    download(secure, tmp_path / "downloaded", Fetch(retries=0))
    assert flaw_of_environment(secure) is None
    assert (tmp_path / "downloaded").stat().st_size > 0


def test_a_missing_bundle_is_no_matter_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes without certificates still comes."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent.pem")
    settings = Fetch(cache=str(tmp_path / "cache"), retries=0, timeout=5)
    addresses = [Address(("https://127.0.0.1:9/toy.txt",))]
    with pytest.raises(ReproError) as caught:
        obtain(Wanted("toy", "toy", ((".txt",),), lambda: addresses), settings, lambda paths: paths)
    assert "REQUESTS_CA_BUNDLE=/nonexistent.pem" in str(caught.value)
    assert "cannot write" not in str(caught.value)


def test_http_needs_no_certificates(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent.pem")
    server.files["toy.txt"] = b"a toy"
    download(f"{server.url}/toy.txt", tmp_path / "downloaded", Fetch(retries=0))
    assert (tmp_path / "downloaded").read_bytes() == b"a toy"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("name", ["{}_PROXY", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize(
    "value",
    [
        "://",
        "http://",
        "http://[bad",
        "http://host:port",
        "ftp://127.0.0.1:9",
        "user:secret@127.0.0.1:9",
        "http://user:secret@127.0.0.1:99999",
        " ",
    ],
)
def test_a_malformed_proxy_is_named_without_its_password(
    value: str, name: str, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = name.format(scheme.upper())
    monkeypatch.setenv(name, value)
    message = refusal(f"{scheme}://127.0.0.1:9/toy.txt", tmp_path)
    assert message.startswith(f"malformed proxy {name}={value.replace('user:secret@', '')}: ")
    assert "secret" not in message


def test_a_proxy_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:se@cret@127.0.0.1:9")
    message = refusal("http://127.0.0.1:9/toy.txt", tmp_path, retries=0)
    assert "no connection to the proxy HTTP_PROXY=http://127.0.0.1:9 (" in message
    assert "cret" not in message


def test_a_malformed_address_is_the_address_whatever_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    for url in ("http://[", "http://", "gopher://localhost/toy.txt", "toy"):
        assert refusal(url, tmp_path).startswith("malformed address: ")


def test_there_is_no_proxy_where_none_is_named_or_for_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_of("http://127.0.0.1/") is None
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    assert proxy_of("http://127.0.0.1/") == "HTTP_PROXY=http://proxy.example:3128"
    assert proxy_of("https://127.0.0.1/") is None
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert proxy_of("http://127.0.0.1/") is None


@pytest.mark.parametrize(("name", "value"), [("CURL_CA_BUNDLE", "/nonexistent.pem"), ("HTTPS_PROXY", "http://[bad")])
def test_the_index_that_cannot_be_read_says_so_too(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "_LOOKUP", "raise SystemExit('OSError: something of a bundle')")
    monkeypatch.setenv(name, value)
    with pytest.raises(ReproError) as caught:
        repositories.look_up("Bai", "qc324", Fetch(cache=str(tmp_path)))
    assert f"{name}={value}" in str(caught.value.actual)
