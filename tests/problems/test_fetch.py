from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from repro.config.models import Config, Fetch
from repro.errors import ReproError
from repro.problems import repositories
from repro.problems.builder import build
from repro.problems.fetch import CHUNK, Address, Found, Wanted, mirrors, obtain
from repro.problems.files import read_record
from repro.problems.registry import Stanford, Suitesparse, Tetmesh
from repro.problems.repositories import read_stanford, read_suitesparse, read_tetmesh

pytestmark = pytest.mark.usefixtures("no_mirror")

MTX = b"%%MatrixMarket matrix coordinate real symmetric\n3 3 4\n1 1 2.0\n2 2 2.0\n3 3 2.0\n2 1 -1.0\n"
LONG = MTX.replace(b"symmetric\n", b"symmetric\n" + 4000 * (b"%" + 48 * b" " + b"\n"))  # several chunks of a download
OTHER = MTX.replace(b"-1.0", b"-1.5")
PACKED = gzip.compress(MTX, mtime=0)
TETRAHEDRON = b"""ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
element face 4
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
0 1 0
0 0 1
3 0 2 1
3 0 1 3
3 1 2 3
3 0 3 2
"""


def tar_gz(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name.replace("__", "/") + (".ply" if b"ply" in data[:4] else ".mtx"))
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def matrix(*urls: str, **fields: Any) -> Suitesparse:
    return Suitesparse(source="suitesparse", name="toy", entry="real", group="Group", matrix="toy", urls=urls, **fields)


def surface(*urls: str, **fields: Any) -> Stanford:
    return Stanford(source="stanford", name="surfaces/toy", model="toy", urls=urls, **fields)


@pytest.fixture
def settings(tmp_path: Path) -> Fetch:
    return Fetch(cache=str(tmp_path / "cache"), timeout=0.5, retries=0)


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise ReproError("the SuiteSparse index could not be read", actual="no network here")

    monkeypatch.setattr(repositories, "look_up", unreachable)
    monkeypatch.setattr(repositories, "SITE", "http://127.0.0.1:9/MM")  # nobody listens there


def files_in(settings: Fetch) -> list[str]:
    cache = Path(settings.cache)
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def test_a_web_mirror_is_tried_by_path_and_its_file_kept(server: Any, settings: Fetch) -> None:
    server.files["m/suitesparse/Group/toy.mtx.gz"] = PACKED
    settings = settings.model_copy(update={"mirrors": (f"{server.url}/m/",)})
    found = read_suitesparse(matrix(), settings)
    assert found.content.file.matrix.nnz == 5
    assert found.address == f"{server.url}/m/suitesparse/Group/toy.mtx.gz"
    assert files_in(settings) == ["records/toy.json", "suitesparse/Group/toy.mtx.gz"]
    hits = list(server.hits)
    again = read_suitesparse(matrix(), settings)
    assert server.hits == hits
    assert again.address == found.address


def test_a_download_that_is_not_kept_is_read_and_gone_and_what_was_put_by_hand_stays(
    server: Any, settings: Fetch
) -> None:
    server.files["toy.mtx.gz"] = PACKED
    passing = settings.model_copy(update={"keep": False})
    found = read_suitesparse(matrix(f"{server.url}/toy.mtx.gz"), passing)
    assert found.content.file.matrix.nnz == 5
    assert files_in(settings) == ["records/toy.json"], "address and checksum alone"
    assert read_record(Path(settings.cache), "toy")["address"] == f"{server.url}/toy.mtx.gz"

    by_hand = Path(settings.cache) / "suitesparse/Group/toy.mtx.gz"
    by_hand.write_bytes(PACKED)
    hits = list(server.hits)
    assert read_suitesparse(matrix(f"{server.url}/toy.mtx.gz"), passing).paths == (by_hand,)
    assert (server.hits, by_hand.exists()) == (hits, True)


def test_a_folder_is_used_in_place_and_not_named_in_the_origin(tmp_path: Path, settings: Fetch) -> None:
    folder = tmp_path / "mirror/suitesparse/Group"
    folder.mkdir(parents=True)
    (folder / "toy.mtx").write_bytes(MTX)
    settings = settings.model_copy(update={"mirrors": (str(tmp_path / "mirror"),)})
    found = read_suitesparse(matrix(), settings)
    assert found.paths == (folder / "toy.mtx",)
    assert found.address == "mirror: suitesparse/Group/toy.mtx"
    assert files_in(settings) == ["records/toy.json"]  # the checksum at first use, no copy


def test_the_environment_variable_comes_first(monkeypatch: pytest.MonkeyPatch, settings: Fetch) -> None:
    settings = settings.model_copy(update={"mirrors": ("b", "c")})
    assert mirrors(settings) == ["b", "c"]
    monkeypatch.setenv("REPRO_MIRROR", "c")
    assert mirrors(settings) == ["c", "b"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("mood", "data", "reason", "tries"),
    [
        (404, PACKED, "HTTP 404", 1),
        (500, PACKED, "HTTP 500", 2),
        ("cut", PACKED, "cut off before the end", 2),
        ("stall", PACKED, "stalled: not a byte in 0.5 s", 2),
        (None, b"<html>please log in</html>", "not a complete Matrix Market file", 1),
        (None, PACKED[:-12], "truncated or corrupt", 1),
        (None, PACKED[:30] + b"\0\1\2\3" + PACKED[34:], "truncated or corrupt", 1),
        (None, gzip.compress(OTHER), "wrong checksum", 1),
    ],
    ids=["404", "500", "cut", "stall", "html", "truncated", "corrupt", "checksum"],
)
def test_a_download_that_fails_is_explained_and_leaves_nothing(
    server: Any, settings: Fetch, mood: object, data: bytes, reason: str, tries: int
) -> None:
    server.files["toy.mtx.gz"] = data
    server.moods["toy.mtx.gz"] = [mood]
    settings = settings.model_copy(update={"retries": 1, "mirrors": ("/nowhere/mirror",)})
    url = f"{server.url}/toy.mtx.gz"
    pinned = "60fd1ed4f2c3b4d6f5e0d5a1b3b1a1b9a6a2e3a3b7f0a70e4d2a6d5cf9a0c111"
    with pytest.raises(ReproError) as caught:
        read_suitesparse(matrix(url, checksum=pinned if reason == "wrong checksum" else None), settings)
    message = str(caught.value)
    assert f"{url}: " in message
    assert reason in message
    # every place is named: download folder, mirror, address, and the guess at the collection's own
    for place in (f"{settings.cache}/suitesparse/Group/toy", "/nowhere/mirror/suitesparse/Group/toy", "127.0.0.1:9/MM"):
        assert place in message
    assert "no network here" in message
    assert f"put the file at {settings.cache}/suitesparse/Group/toy{{.tar.gz,.mtx.gz,.mtx}}" in message
    assert server.hits == ["toy.mtx.gz"] * tries
    assert files_in(settings) == []
    assert not list(Path(settings.cache).rglob(".partial*"))


def test_a_server_that_recovers_is_asked_again(server: Any, settings: Fetch) -> None:
    server.files["toy.mtx.gz"] = PACKED
    server.moods["toy.mtx.gz"] = [503, "cut", None]
    settings = settings.model_copy(update={"retries": 2})
    assert read_suitesparse(matrix(f"{server.url}/toy.mtx.gz"), settings).content.file.matrix.nnz == 5
    assert len(server.hits) == 3


class Resumable:
    """Moods of a server that knows ranges: it cuts each answer off in the middle, up to one."""

    def __init__(self, data: bytes, version: str = '"1"') -> None:
        self.data, self.version, self.asked = data, version, list[str | None]()

    def __call__(self, request: Any, whole: bool = False) -> None:
        self.asked.append(request.headers["Range"])
        start = int(self.asked[-1][6:-1]) if request.headers["If-Range"] == self.version else 0
        rest = self.data[start:]
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        request.send_header("ETag", self.version)
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        request.wfile.write(rest if whole else rest[: len(rest) // 2])


@pytest.mark.parametrize("changes", [False, True])
def test_a_download_that_was_cut_off_goes_on_where_it_was(server: Any, settings: Fetch, changes: bool) -> None:
    first = Resumable(LONG.replace(b"-1.0", b"-1.5") if changes else LONG)
    second = Resumable(LONG, '"2"' if changes else '"1"')
    server.moods["toy.mtx"] = [first, 503, lambda request: second(request, whole=True)]
    settings = settings.model_copy(update={"retries": 2})
    found = read_suitesparse(matrix(f"{server.url}/toy.mtx"), settings)
    assert found.paths[0].read_bytes() == LONG
    assert (first.asked, second.asked) == ([None], [f"bytes={CHUNK}-"])


@pytest.mark.parametrize("header", ["bytes 0-9/99", "nonsense"])
def test_a_range_that_was_not_asked_for_is_refused(server: Any, settings: Fetch, header: str) -> None:
    def other_range(request: Any) -> None:
        request.send_response(206)
        request.send_header("Content-Range", header)
        request.send_header("Content-Length", str(len(LONG)))
        request.end_headers()
        request.wfile.write(LONG)

    server.moods["toy.mtx"] = [Resumable(LONG), other_range]
    with pytest.raises(ReproError, match="Content-Range is not the range that was asked for"):
        read_suitesparse(matrix(f"{server.url}/toy.mtx"), settings.model_copy(update={"retries": 1}))


def busy(wait: str) -> Callable[[Any], None]:
    def answer(request: Any) -> None:
        request.send_response(429)
        request.send_header("Retry-After", wait)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer


def test_a_server_is_asked_again_when_it_wants_to_be(
    server: Any, settings: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("repro.problems.fetch.time.sleep", pauses.append)
    server.files["toy.mtx.gz"] = PACKED
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1))
    server.moods["toy.mtx.gz"] = [busy("7"), busy("no date"), busy(in_an_hour), None]
    settings = settings.model_copy(update={"retries": 3})
    assert read_suitesparse(matrix(f"{server.url}/toy.mtx.gz"), settings).content.file.matrix.nnz == 5
    assert pauses[:3] == [0, 7, 7] and 3500 < pauses[3] <= 3600

    server.moods["toy.mtx.gz"] = [busy("9000")]
    impatient = settings.model_copy(update={"cache": settings.cache + "2", "max_seconds": 100.0})
    with pytest.raises(ReproError, match=r"HTTP 429 .*; the server asks to wait 9,000 s"):
        read_suitesparse(matrix(f"{server.url}/toy.mtx.gz"), impatient)


def test_a_mirror_with_a_wrong_file_does_not_hide_the_right_one(server: Any, settings: Fetch) -> None:
    good = read_suitesparse_checksum(server, settings)
    server.files["m/suitesparse/Group/toy.mtx"] = OTHER
    server.files["toy.mtx"] = MTX
    settings = settings.model_copy(update={"mirrors": (f"{server.url}/m",), "cache": settings.cache + "2"})
    found = read_suitesparse(matrix(f"{server.url}/toy.mtx", checksum=good), settings)
    assert found.address == f"{server.url}/toy.mtx"
    assert found.content.checksum == {"sha256": good, "state": "pinned"}


def read_suitesparse_checksum(server: Any, settings: Fetch) -> str:
    server.files["once.mtx"] = MTX
    return read_suitesparse(matrix(f"{server.url}/once.mtx"), settings).content.checksum["sha256"]


def test_the_checksum_is_of_the_content_and_kept_at_first_use(tmp_path: Path, settings: Fetch) -> None:
    folder = Path(settings.cache) / "suitesparse/Group"
    folder.mkdir(parents=True)
    sums = set()
    shuffled = MTX.replace(b"1 1 2.0\n2 2 2.0\n", b"2 2 2\n1 1 2e0\n")
    wrappings = {"toy.mtx": MTX, "toy.mtx.gz": gzip.compress(shuffled), "toy.tar.gz": tar_gz(toy__toy=MTX)}
    for name, data in wrappings.items():
        (folder / name).write_bytes(data)
        checked = read_suitesparse(matrix(), settings).content
        assert checked.checksum["state"] == "unpinned"
        sums.add(checked.checksum["sha256"])
        (folder / name).unlink()
    assert len(sums) == 1
    assert read_record(Path(settings.cache), "toy")["sha256"] in sums
    (folder / "toy.mtx").write_bytes(OTHER)
    with pytest.raises(ReproError, match=r"wrong checksum.*recorded at first use"):
        read_suitesparse(matrix(), settings)


def test_a_member_is_taken_out_of_an_archive(server: Any, settings: Fetch) -> None:
    server.files["toy.tar.gz"] = tar_gz(README=b"ply no", toy__recon__other=b"ply bad", toy__recon__toy=TETRAHEDRON)
    found = read_stanford(surface(f"{server.url}/toy.tar.gz", member="toy/recon/toy.ply"), settings)
    assert found.content.cells.shape == (4, 3)
    assert files_in(settings) == ["records/surfaces/toy.json", "stanford/toy.ply"]


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (
            tar_gz(toy__elsewhere=TETRAHEDRON),
            "the archive lacks the file.*toy/recon/toy.ply.*toy/elsewhere.ply",
        ),
        (tar_gz(toy__recon__toy=TETRAHEDRON)[:-20], "truncated or corrupt"),
    ],
)
def test_an_archive_that_does_not_do(server: Any, settings: Fetch, archive: bytes, reason: str) -> None:
    server.files["toy.tar.gz"] = archive
    with pytest.raises(ReproError, match=reason):
        read_stanford(surface(f"{server.url}/toy.tar.gz", member="toy/recon/toy.ply"), settings)
    assert files_in(settings) == []


def test_a_file_that_the_server_unpacks_on_the_way_is_kept_without_its_suffix(server: Any, settings: Fetch) -> None:
    server.files["toy.ply.gz"] = gzip.compress(TETRAHEDRON)
    server.moods["toy.ply.gz"] = ["encoded"]
    found = read_stanford(surface(f"{server.url}/toy.ply.gz"), settings)
    assert found.paths[0].name == "toy.ply"
    assert found.paths[0].read_bytes() == TETRAHEDRON


def test_both_files_of_a_pair_are_fetched_or_none(server: Any, settings: Fetch) -> None:
    node = b"4 3 0 0\n0 0 0 0\n1 1 0 0\n2 0 1 0\n3 0 0 1\n"
    server.files["toy.node"] = node
    item = Tetmesh(
        source="tetmesh",
        name="toy",
        mesh="toy",
        parts=(".node", ".ele"),
        urls=((f"{server.url}/toy.node", f"{server.url}/toy.ele"),),
    )
    with pytest.raises(ReproError, match=r"toy\.ele: HTTP 404"):
        read_tetmesh(item, settings)
    assert files_in(settings) == []
    server.files["toy.ele"] = b"1 4 0\n0 0 1 2 3\n"
    assert read_tetmesh(item, settings).content.cells.tolist() == [[0, 1, 2, 3]]
    assert files_in(settings) == ["records/toy.json", "tetmesh/toy.ele", "tetmesh/toy.node"]


@pytest.mark.wording
def test_a_download_folder_that_cannot_be_written(server: Any, tmp_path: Path) -> None:
    server.files["toy.mtx"] = MTX
    (tmp_path / "file").write_text("in the way")
    settings = Fetch(cache=str(tmp_path / "file" / "cache"))
    with pytest.raises(ReproError, match=r"cannot write to the download folder[\s\S]*fetch\.cache"):
        read_suitesparse(matrix(f"{server.url}/toy.mtx"), settings)


def test_addresses_are_not_asked_for_where_the_file_is_there(settings: Fetch) -> None:
    path = Path(settings.cache) / "a/b.txt"
    path.parent.mkdir(parents=True)
    path.write_text("content")

    def never() -> list[Address]:
        raise AssertionError("the network was asked")

    found: Found[str] = obtain(Wanted("b", "a/b", ((".txt",),), never), settings, lambda paths: paths[0].read_text())
    assert (found.content, found.address) == ("content", "put by hand: a/b.txt")


@pytest.mark.mirror
def test_the_real_mirror_served_over_http(server: Any, make_config: Callable[..., Config], mirror: Path) -> None:
    for name in (
        "suitesparse/Bai/mhd1280b.mtx.gz",
        "tetmesh/pbd_armadillo_4k.node.gz",
        "tetmesh/pbd_armadillo_4k.ele.gz",
    ):
        server.files[name] = (mirror / name).read_bytes()
    config = make_config(fetch={"mirrors": [server.url]})
    problem = build("mhd1280b", config)
    assert (problem.n, problem.nnz) == (1280, 22778)
    assert problem.origin["address"] == f"{server.url}/suitesparse/Bai/mhd1280b.mtx.gz"
    assert problem.origin["checksum"]["state"] == "pinned"
    assert build("armadillo_4k", config).n == 1180
