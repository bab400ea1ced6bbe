"""Downloads end: within a time and a size, with a reason, and with nothing half-written left."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.fetch import Address, Found, Refused, Wanted, download, obtain, partial_folder

pytestmark = pytest.mark.usefixtures("no_mirror")

TOY = b"a toy\n"
LARGEST = 100_000
BOMB = gzip.compress(bytes(50 * LARGEST))
Handler = Any
Settings = Callable[..., Fetch]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Make settings for small and fast downloads."""

    def make(**keys: Any) -> Fetch:
        usual = {"cache": str(tmp_path / "cache"), "timeout": 5, "retries": 2, "max_seconds": 30, "max_bytes": LARGEST}
        return Fetch(**{**usual, **keys})

    return make


def obtain_toy(settings: Fetch, url: str, member: str | None = None) -> Found[bytes]:
    """Obtain a file in one part, whatever is in it."""
    suffix = ".txt" if member else next(s for s in (".txt.gz", ".txt.xz", ".txt") if url.endswith(s) or s == ".txt")
    wanted = Wanted("toy", "folder/toy", ((suffix,),), lambda: [Address((url,), member)])
    return obtain(wanted, settings, lambda paths: paths[0].read_bytes())


def refusal(settings: Fetch, url: str, member: str | None = None) -> str:
    """Return the message that a download ends in, which names its address, and which leaves nothing."""
    with pytest.raises(ReproError) as caught:
        obtain_toy(settings, url, member)
    message = str(caught.value)
    assert message.startswith("toy could not be fetched")
    assert f"{url}: " in message
    assert "put the file at" in message
    left = [path for path in Path(settings.cache).rglob("*") if path.name != "folder"]
    assert left == []
    return message


def trickle(start: bytes) -> Callable[[Handler], None]:
    """Send the start at once, and then a byte every 50 ms for ever."""

    def send(handler: Handler) -> None:
        handler.wfile.write(start)
        while not handler.server.closing.wait(0.05):
            handler.wfile.write(b"x")

    return send


def endless(header: str) -> Callable[[Handler], None]:
    def send(handler: Handler) -> None:
        handler.wfile.write(f"HTTP/1.1 {header}\r\n\r\n".encode())
        while not handler.server.closing.is_set():
            handler.wfile.write(bytes(1 << 16))

    return send


def answer(headers: dict[str, str], body: bytes, status: int = 200) -> Callable[[Handler], None]:
    def send(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: ", b""],
    ids=["body", "body-without-length", "header", "status"],
)
def test_a_byte_now_and_then_does_not_go_on_for_ever(server: Any, settings: Settings, start: bytes) -> None:
    server.moods["toy.txt"] = [trickle(start)]
    message = refusal(settings(max_seconds=1), f"{server.url}/toy.txt")
    assert "not done in 1 s (fetch.max_seconds)" in message
    assert server.hits == ["toy.txt"]


def test_importing_what_downloads_is_no_part_of_the_time(
    server: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it alone took longer than a test's limit, so that a server was never asked."""

    class Slow:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "requests":
                time.sleep(2)

    server.files["toy.txt"] = TOY
    monkeypatch.delitem(sys.modules, "requests", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Slow(), *sys.meta_path])
    assert obtain_toy(settings(max_seconds=1.5, retries=0), f"{server.url}/toy.txt").content == TOY


def test_trying_again_is_part_of_the_time(server: Any, settings: Settings) -> None:
    server.moods["toy.txt"] = [503]
    assert "HTTP 503" in refusal(settings(max_seconds=1, retries=100), f"{server.url}/toy.txt")
    assert len(server.hits) == 2


def test_an_endless_stream_is_cut(server: Any, settings: Settings) -> None:
    server.moods["toy.txt"] = [endless("200 OK")]
    assert "larger than 100,000 bytes (fetch.max_bytes)" in refusal(settings(), f"{server.url}/toy.txt")
    assert server.hits == ["toy.txt"]


@pytest.mark.wording
def test_what_says_that_it_is_too_large_is_not_downloaded(server: Any, settings: Settings) -> None:
    server.moods["toy.txt"] = [answer({"Content-Length": "100001"}, b"")]
    message = refusal(settings(), f"{server.url}/toy.txt")
    assert "larger than 100,000 bytes (fetch.max_bytes), it would be 100,001" in message


@pytest.mark.wording
@pytest.mark.parametrize(
    ("body", "name"),
    [(BOMB, "toy.txt.gz"), (lzma.compress(bytes(50 * LARGEST)), "toy.txt.xz"), (BOMB, "toy.txt")],
    ids=["gz", "xz", "under-another-name"],
)
def test_a_file_that_is_too_large_once_unpacked(server: Any, settings: Settings, body: bytes, name: str) -> None:
    server.files[name] = body
    message = refusal(settings(), f"{server.url}/{name}")
    assert "the unpacked file is too large" in message
    assert "at most 100,000 bytes (fetch.max_bytes)" in message


@pytest.mark.wording
def test_what_the_server_packed_for_the_way_counts_unpacked(server: Any, settings: Settings) -> None:
    server.files["toy.txt"] = BOMB
    server.moods["toy.txt"] = ["encoded"]
    assert "larger than 100,000 bytes (fetch.max_bytes)" in refusal(settings(), f"{server.url}/toy.txt")


def archive(name: str, content: bytes, *, sparse: int | None = None) -> bytes:
    stream = io.BytesIO()
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name}
    with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        if sparse is not None:  # as GNU tar writes one that is a hole of that many bytes
            content = f"1\n{sparse}\n0\n".encode().ljust(512, b"\0")
            info.pax_headers = {**headers, "GNU.sparse.realsize": str(sparse)}
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive("toy/toy.txt", bytes(2 * LARGEST)), "the unpacked file is too large"),
        (archive("toy/toy.txt", BOMB), "the unpacked file is too large"),
        (archive("toy/toy.txt", b"", sparse=1 << 50), "the archive lacks the file"),
        (archive("../../toy/toy.txt", TOY), "the archive lacks the file"),
        (archive("/toy/toy.txt", TOY), "the archive lacks the file"),
    ],
    ids=["large", "packed-again", "sparse", "upwards", "absolute"],
)
def test_an_archive_that_is_meant_badly(
    server: Any, settings: Settings, tmp_path: Path, content: bytes, reason: str
) -> None:
    assert len(content) < LARGEST
    server.files["toy.tar.gz"] = content
    assert reason in refusal(settings(), f"{server.url}/toy.tar.gz", "toy/toy.txt")
    assert not list(tmp_path.rglob("*.txt"))


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        ("many", "malformed answer: Content-Length 'many'"),
        ("-5", "malformed answer: Content-Length '-5'"),
        ("6, 7", "malformed answer: Content-Length contained multiple unmatching values"),
        ("9" * 30, "larger than 100,000 bytes"),
        ("60", "cut off before the end"),
    ],
)
def test_a_length_that_is_not_the_files(server: Any, settings: Settings, length: str, reason: str) -> None:
    server.moods["toy.txt"] = [answer({"Content-Length": length}, TOY)]
    assert reason in refusal(settings(retries=0), f"{server.url}/toy.txt")


@pytest.mark.parametrize(
    "url",
    ["http://[", "http://", "gopher://localhost/toy.txt", "http://localhost:port/toy.txt", "//", "toy", "http://\x00"],
)
def test_a_malformed_address_is_said_and_not_tried_again(settings: Settings, url: str) -> None:
    assert "malformed address" in refusal(settings(), url)


@pytest.mark.parametrize("mirror", ["http://[", "gopher://mirror"])
def test_a_malformed_mirror_is_said(server: Any, settings: Settings, mirror: str) -> None:
    message = refusal(settings(mirrors=(mirror,)), f"{server.url}/toy.txt")
    assert f"{mirror}/folder/toy.txt: malformed address" in message
    server.files["toy.txt"] = TOY
    assert obtain_toy(settings(mirrors=(mirror,)), f"{server.url}/toy.txt").content == TOY


def test_addresses_that_lead_in_a_circle(server: Any, settings: Settings) -> None:
    server.moods["toy.txt"] = [answer({"Location": "/toy.txt", "Content-Length": "0"}, b"", 302)]
    assert "it leads in a circle" in refusal(settings(), f"{server.url}/toy.txt")
    assert len(server.hits) == 31


def test_an_address_that_leads_to_a_malformed_one(server: Any, settings: Settings) -> None:
    server.moods["toy.txt"] = [answer({"Location": "file:///etc/passwd", "Content-Length": "0"}, b"", 302)]
    assert "malformed address" in refusal(settings(), f"{server.url}/toy.txt")


def test_what_is_said_beside_another_address_is_not_read(server: Any, settings: Settings) -> None:
    server.moods["old.txt"] = [endless("302 Found\r\nLocation: /toy.txt")]
    server.files["toy.txt"] = TOY
    assert obtain_toy(settings(max_seconds=10), f"{server.url}/old.txt").content == TOY


def test_a_file_at_the_limits_is_fetched(server: Any, settings: Settings) -> None:
    content = bytes(LARGEST)
    server.files["toy.txt"] = content
    server.files["toy.txt.gz"] = gzip.compress(content)
    assert obtain_toy(settings(), f"{server.url}/toy.txt").content == content
    packed = obtain_toy(settings(cache=settings().cache + "2"), f"{server.url}/toy.txt.gz").content
    assert gzip.decompress(packed) == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_no_matter_of_the_network(server: Any, settings: Settings, tmp_path: Path) -> None:
    server.files["toy.txt"] = TOY
    (tmp_path / "toy.txt").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        download(f"{server.url}/toy.txt", tmp_path / "toy.txt", settings())
    assert server.hits == ["toy.txt"]


def test_nothing_is_written_by_what_is_not_waited_for(server: Any, settings: Settings, tmp_path: Path) -> None:
    server.moods["toy.txt"] = [trickle(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1 << 16))]
    with pytest.raises(Refused), partial_folder(tmp_path) as folder:
        download(f"{server.url}/toy.txt", folder / "toy.txt", settings(max_seconds=0.3))
    assert list(tmp_path.iterdir()) == []
