import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import SCHEMA
from repro.bench.store import read_rows, write_table
from repro.campaign.archive import pack
from repro.campaign.workflow import hold_run_lock
from repro.cli.records import record
from repro.errors import ReproError

COLUMNS = pa.schema(
    [("key", pa.string()), ("problem", pa.string()), ("precision", pa.string()), ("name", pa.string()),
     ("n_t", pa.int64()), ("clustered", pa.bool_()), ("event_median", pa.float64()), ("preprocess", pa.float64()),
     ("ties", pa.list_(pa.string())), ("schema", pa.int64())]
)  # fmt: skip


def rows(problem, precision, times, *, version=SCHEMA):
    """A made-up table, a row a time; what is not a time is null in every other row."""
    lines = [
        {
            "key": f"{hash((problem, precision, time)) % 2**64:032x}",
            "problem": problem,
            "precision": precision,
            "name": f"CSR/static-{32 * i}",
            "n_t": None if i % 2 else 32 * i,
            "clustered": None if i % 2 else True,
            "event_median": time,
            "preprocess": time and time / 3,
            "ties": ["a", "b"][: i % 3],
            "schema": version,
        }
        for i, time in enumerate(times)
    ]
    return pa.Table.from_pylist(lines, COLUMNS)


ROWS = rows("qc324", "double", [1.0])


def change(column, values):
    """Return the rows with other values in a column."""
    return ROWS.set_column(ROWS.column_names.index(column), column, pa.array(values))


def measure(study, step, problem, precision, times, **options):
    table = rows(problem, precision, times, **options)
    return table, write_table(table, study / problem / precision / f"{step}.parquet")


@pytest.fixture
def study(tmp_path):
    """A campaign of one study: four searched cases, two reported, and what belongs to no study."""
    folder = tmp_path / "results/made/raw/spmv"
    for problem, precision, times in [
        ("fem/nut", "double", [3e-6, None]),
        ("qc324", "double", [0.1, 0.1 + 2**-56]),
        ("fem/Bunny", "single", [1e-6, 5e-324, 2.5]),
        ("fem/Bunny", "double", [4e-6]),
    ]:
        measure(folder, "search", problem, precision, times)
    measure(folder, "report", "qc324", "double", [7e-6])
    measure(folder, "report", "unavailable", "double", [])
    problems = folder.parent / "problems"
    problems.mkdir()
    write_table(rows("qc324", "single", [1.0]), problems / "a" / "b" / "search.parquet")
    return folder


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_table_is_read_back_value_for_value(tmp_path):
    table = rows("p", "double", [0.1, None, 5e-324, float("inf"), 1 / 3])
    table = table.append_column("nothing", pa.nulls(len(table)))
    path = write_table(table, tmp_path / "new/rows.parquet")
    assert pq.read_table(path).equals(table)
    assert pq.read_schema(path).metadata == {b"schema": str(SCHEMA).encode()}
    assert files(tmp_path / "new") == ["rows.parquet"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "rows.parquet"
    old = rows("p", "double", [1.0])
    write_table(old, path)
    with pytest.raises(OSError, match="DELTA"):
        write_table(pa.table({"key": [1.5]}), path)  # a number, and no text
    assert pq.read_table(path).equals(old)
    assert files(tmp_path) == ["rows.parquet"]


def test_a_packed_step_is_a_file_with_all_rows_in_the_order_of_their_folders(study):
    sources = [pq.read_table(path, partitioning=None) for path in sorted(study.rglob("search.parquet"))]
    pack(CampaignFolder(study.parents[1]))
    packed = pq.read_table(study / "search.parquet")
    assert packed.equals(pa.concat_tables(sources))
    assert packed["problem"].to_pylist()[:4] == ["fem/Bunny"] * 4
    assert packed["precision"].to_pylist()[:4] == ["double", "single", "single", "single"]


def test_packing_leaves_one_file_a_step_and_what_is_no_study(study):
    others = files(study.parent / "problems")
    written = pack(CampaignFolder(study.parents[1]))
    assert written == [study / "report.parquet", study / "search.parquet"]
    assert files(study) == ["report.parquet", "search.parquet"]
    assert files(study.parent / "problems") == others


def test_a_campaign_is_not_recorded_while_a_run_works_in_its_folder(study, tmp_path):
    before = files(study)
    with hold_run_lock("other", tmp_path / "results"):
        with pytest.raises(ReproError, match=r"another run is active in this folder(.|\n)*campaign other, process"):
            record("made", results=tmp_path / "results")
        assert files(study) == before
    for _ in range(2):  # it keeps no lock, nor does it need one that is there
        record("made", results=tmp_path / "results")
    assert files(study) == ["report.parquet", "search.parquet"]


def test_a_folder_that_holds_something_else_stays(study):
    (study / "qc324/notes.txt").write_text("mine")
    pack(CampaignFolder(study.parents[1]))
    assert files(study) == ["qc324", "qc324/notes.txt", "report.parquet", "search.parquet"]


@pytest.mark.parametrize("step", ["search", "report"])
def test_rows_are_the_same_merged_or_not(study, step):
    before = read_rows(study, step)
    pack(CampaignFolder(study.parents[1]))
    assert read_rows(study, step).equals(before)
    assert before.num_rows == {"search": 8, "report": 1}[step]


def test_there_are_no_rows_of_a_step_that_was_not_measured(study):
    assert read_rows(study, "counters").num_rows == 0


def test_a_case_that_was_measured_again_replaces_its_rows_alone(study):
    pack(CampaignFolder(study.parents[1]))
    old = pq.read_table(study / "search.parquet")
    again, _ = measure(study, "search", "fem/Bunny", "single", [8.0])
    expected = pa.concat_tables([old.slice(0, 1), again, old.slice(4)])
    assert read_rows(study, "search").equals(expected)
    assert pack(CampaignFolder(study.parents[1])) == [study / "search.parquet"]
    assert pq.read_table(study / "search.parquet").equals(expected)
    assert pack(CampaignFolder(study.parents[1])) == []


def test_a_step_without_rows_has_no_merged_file(study):
    measure(study, "repeat", "fem/nut", "double", [])
    pack(CampaignFolder(study.parents[1]))
    assert not (study / "repeat.parquet").exists() and (study / "search.parquet").exists()


def test_a_case_of_which_nothing_is_left_loses_its_rows(study):
    pack(CampaignFolder(study.parents[1]))
    measure(study, "report", "qc324", "double", [])
    pack(CampaignFolder(study.parents[1]))
    assert pq.read_table(study / "report.parquet").num_rows == 0


def test_a_column_that_only_some_files_have_is_null_in_the_others(study):
    table = rows("later", "double", [1.0]).append_column("host_median", pa.array([2.0]))
    write_table(table, study / "later/double/search.parquet")
    pack(CampaignFolder(study.parents[1]))
    assert pq.read_table(study / "search.parquet")["host_median"].to_pylist() == [None] * 6 + [2.0] + [None] * 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"PAR1"), "unreadable rows"),
        (lambda path: write_table(rows("qc324", "double", [1.0], version=SCHEMA - 1), path), "a different schema"),
        (lambda path: write_table(rows("other", "double", [1.0]), path), "a different problem"),
        (
            lambda path: write_table(ROWS.drop_columns(["precision"]), path),
            r"a different schema[\s\S]*as its precision",
        ),
        (lambda path: write_table(ROWS.drop_columns(["schema"]), path), "a different schema"),
        (lambda path: write_table(change("problem", [None]), path), r"a different schema[\s\S]*as its problem"),
        (lambda path: write_table(change("problem", [5]), path), r"a different schema[\s\S]*as its problem"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_nothing_changes(study, spoil, message):
    spoiled = study / "qc324/double/report.parquet"
    spoil(spoiled)
    before = files(study)
    with pytest.raises(ReproError, match=message) as error:
        pack(CampaignFolder(study.parents[1]))
    assert str(spoiled) in str(error.value)
    assert files(study) == before


def test_columns_that_files_do_not_agree_on_are_said(study):
    write_table(change("event_median", ["fast"]), study / "qc324/double/search.parquet")
    before = files(study)
    with pytest.raises(ReproError, match=r"a different schema[\s\S]*search\.parquet[\s\S]*event_median"):
        pack(CampaignFolder(study.parents[1]))
    assert files(study) == before


@pytest.mark.wording
def test_what_is_kept_already_is_verified(study):
    pack(CampaignFolder(study.parents[1]))
    path = study / "search.parquet"
    content = bytearray(path.read_bytes())
    content[200] ^= 1  # in a page
    path.write_bytes(content)
    with pytest.raises(ReproError, match=r"unreadable rows[\s\S]*search\.parquet"):
        pack(CampaignFolder(study.parents[1]))


def test_a_campaign_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ReproError, match="no such campaign"):
        pack(CampaignFolder(tmp_path))


def test_the_command_says_what_it_wrote_and_how_much_smaller_it_is(study, capsys):
    record("made", results=study.parents[2])
    *written, crate, total = capsys.readouterr().out.splitlines()
    assert crate == f"wrote {study.parents[1] / 'ro-crate-metadata.json'}"
    assert [line.rpartition(":")[0] for line in written] == [str(study / f"{s}.parquet") for s in ("report", "search")]
    assert total.startswith("7 files of ") and ", 3 of " in total
