"""Configuration models: the only place that defines each key, its default and its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)

from repro.config.validation_errors import refuse_unknown
from repro.entries import entries
from repro.galerkin import BASES
from repro.words import (
    DEVICE_MEANING,
    DEVICE_PATTERN,
    DEVICE_WORDS,
    MAX_PART_LENGTH,
    PAPER,
    SPACES,
    Space,
    names_device,
)

Precision = Literal["single", "double"]
Cache = Literal["warm", "cold"]


def one_of(choices: Iterable[str]) -> BeforeValidator:
    """Return a validator that refuses all but `choices`."""
    names = tuple(choices)

    def check(value: object) -> object:
        if value not in names:
            raise refuse_unknown(f"one of {', '.join(names)}", names)
        return value

    return BeforeValidator(check)


BasisName = Annotated[str, one_of(BASES), WithJsonSchema({"enum": [*BASES], "type": "string"})]
EntryName = Annotated[str, one_of(entries()), WithJsonSchema({"enum": [*entries()], "type": "string"})]


def _device(value: object) -> object:
    if not names_device(value):
        raise refuse_unknown(DEVICE_MEANING, DEVICE_WORDS)
    return value


DeviceWords = Annotated[str, BeforeValidator(_device), WithJsonSchema({"pattern": DEVICE_PATTERN, "type": "string"})]


def _file(path: str) -> str:
    try:
        Path(path).expanduser()
    except RuntimeError as error:  # unknown user, such as ~nobody/matrix.mtx
        raise ValueError(str(error)) from None
    return path


def expected(description: str) -> WrapValidator:
    """Return an annotation with which messages say `expected <words>` instead of the violated pattern or length."""

    def check(text: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(text)
        except ValidationError:
            raise ValueError(f"expected {description}") from None

    return WrapValidator(check)


#: Path of a local file or folder, which need not exist.
FilePath = Annotated[
    str,
    Field(min_length=1, max_length=4000, pattern=r"^[^\x00-\x1f]*$"),
    expected("a path, without control characters, of at most 4,000"),
    AfterValidator(_file),
]


def _without_wildcards(path: str) -> str:
    if "{" in path or "}" in path:  # rules of Snakemake contain the path, where braces are placeholders
        raise ValueError("a folder whose name has braces, which are wildcards to Snakemake")
    return path


W = TypeVar("W")


def _once(values: W) -> W:
    if isinstance(values, tuple):
        repeated_words = [value for index, value in enumerate(values) if value in values[:index]]
        if repeated_words:
            text = ", ".join(map(str, repeated_words)).encode(errors="backslashreplace").decode()  # for lone surrogates
            raise ValueError(f"named twice: {text}")
    return values


_Once = AfterValidator(_once)


#: Allowed names of campaigns; they are used as folders and as values of Snakemake wildcards.
CAMPAIGN = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
#: A campaign and a tuning in it.
EDGES = CAMPAIGN.replace("$", "/[a-z_/A-Z-]+$")


def _campaign(name: str) -> str:
    if len(name) > MAX_PART_LENGTH or not re.fullmatch(CAMPAIGN, name):
        suggestion = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:MAX_PART_LENGTH]
        raise refuse_unknown(
            "a name of folders: letters, digits and _, after the first also . and -, at most "
            f"{MAX_PART_LENGTH} characters",
            [suggestion] if suggestion else [],
        )
    return name


CampaignName = Annotated[
    str,
    AfterValidator(_campaign),
    WithJsonSchema({"maxLength": MAX_PART_LENGTH, "pattern": CAMPAIGN, "type": "string"}),
]


def with_tuples(value: Any) -> Any:
    """Return a value with tuples in place of lists, which a strict model wants."""
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value


class Model(BaseModel):
    """Base of all configuration models. Unknown keys and infinite numbers are errors, and instances are immutable.

    Models are strict: a truth value or a text is no number, and neither a number nor a text is a truth value.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _take_lists(cls, data: Any) -> Any:
        return {key: with_tuples(value) for key, value in data.items()} if isinstance(data, Mapping) else data


class Fetch(Model):
    """Settings for downloading input files."""

    cache: FilePath = Field("resources", description="Folder for downloads.")
    keep: bool = Field(
        True,
        description="Whether it does: false drops a download once its problem is built, which then has all that is "
        "measured. `repro fetch` keeps it in any case.",
    )
    mirrors: tuple[str, ...] = Field(
        (),
        description="Folders or URLs tried before a file's own address; REPRO_MIRROR comes first. $NAME is what this "
        "environment variable names, without which the campaign is refused.",
    )
    timeout: float = Field(30.0, gt=0, description="Seconds without a byte before a download is given up.")
    retries: int = Field(2, ge=0, description="How often a download is tried again.")
    max_seconds: float = Field(7200.0, gt=0, description="Total seconds, with retries, before a download is given up.")
    max_bytes: int = Field(20_000_000_000, gt=0, description="Maximum bytes of a download, both packed and unpacked.")


class Limits(Model):
    """Resource limits for reading one file that a user provides or that was downloaded; larger files are rejected."""

    header: int = Field(
        1 << 20,
        ge=1 << 10,
        description="Unpacked bytes within which a Matrix Market file must state its size; a plan reads no more.",
    )
    unpacked: int = Field(32 << 30, gt=0, description="Bytes of an unpacked file.")
    ratio: float = Field(250.0, ge=1, description="Unpacked over packed size; 64 MiB are always allowed.")
    rows: int = Field(100_000_000, gt=0, description="Rows or columns of a matrix.")
    entries: int = Field(1_000_000_000, gt=0, description="Entries in a matrix's file.")
    memory: int = Field(32 << 30, gt=0, description="Bytes of memory for reading a file.")
    memory_ratio: float = Field(
        64.0, ge=1, description="The same per byte of the unpacked file; 2 GiB are always allowed."
    )
    seconds: float = Field(900.0, gt=0, description="Seconds for reading a file.")


class Repeats(Model):
    """Settings for timing the kernels of a study's headline again in further processes, to measure their scatter."""

    cases: int = Field(1, ge=0, description="Number of cases of each study, the first ones, that are timed again.")
    processes: int = Field(1, ge=1, le=100, description="Number of further processes that time such a case.")
    device: DeviceWords | None = Field(
        None, description="Single devices that these processes use in turn, such as cuda:all; absent: the campaign's."
    )


class Timing(Model):
    """Settings for timing a variant, a baseline or the streaming floor."""

    screen_launches: int = Field(20, ge=3, description="Launches with which each variant is screened.")
    reach: float = Field(
        0.10, ge=0, description="A variant this close to the fastest screened one gets the full protocol."
    )
    finalists: int = Field(32, ge=1, description="Maximum number of variants within reach that get it.")
    per_group: int = Field(
        1, ge=1, description="Number of best variants of each group, as the study forms them, that also get it."
    )
    launches: int = Field(1000, ge=10, description="Launches timed one by one in the full protocol.")
    search_graph_launches: int = Field(
        50, ge=2, description="Launches in one graph (on the CPU: in one batch) in the search."
    )
    search_graph_replays: int = Field(10, ge=5, description="Replays of that graph.")
    graph_launches: int = Field(100, ge=2, description="Launches in one graph in the shuffled rounds.")
    graph_replays: int = Field(20, ge=5, description="Replays of that graph in all rounds together.")
    cold_launches: int = Field(
        100, ge=5, description="Launches of the cold rows, each after a flush of the last-level cache."
    )
    gpu_budget: float = Field(
        0.25,
        gt=0,
        description="Seconds for one clock of one variant on a GPU; beyond it fewer launches are made, "
        "and fewer in proportion where a variant is screened or timed in a round.",
    )
    cpu_budget: float = Field(0.02, gt=0, description="The same on the CPU, where a launch takes long.")
    rounds: int = Field(5, ge=2, description="Shuffled rounds in which winners and baselines are timed again.")
    precision: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Rounds go on until half the 95 % interval of each median is at most this share of the median; 0: "
        "there are as many as `rounds` says.",
    )
    max_rounds: int = Field(50, ge=2, description="Maximum number of rounds where `precision` is set.")
    energy_seconds: float = Field(
        0.0,
        ge=0,
        le=60,
        description="Seconds in each round for which a launch of ours, of the papers' kernels and of the library's "
        "fastest routine is repeated to measure its energy; 0: not measured.",
    )
    tie: float = Field(0.01, ge=0, description="Times that differ by less than this are a tie.")
    timeout: float = Field(
        60.0,
        gt=0,
        description="Seconds on an H200 after which a variant is given up, packing not counted; on a slower GPU of "
        "config/gpus.csv as many more as its memory or arithmetic is slower. On others and on the CPU as it stands.",
    )
    noise: float = Field(
        0.25,
        gt=0,
        description="A variant is noisy when its quartiles lie further apart than this, in medians.",
    )
    gpu_disturbed: float = Field(
        1.1,
        gt=1,
        description="A time on a GPU that is longer by this factor than another clock, another round or the best copy "
        "says is disturbed, and taken again.",
    )
    cpu_disturbed: float = Field(
        2.0,
        gt=1,
        description="The same on the CPU, whose cores are shared with everything else; and of another round by the "
        "clock `host`, on a GPU as well.",
    )

    def tolerance(self, backend: str, devices: int = 1) -> float:
        """Return the factor by which an undisturbed time may deviate; it is larger for launches on several devices."""
        factor = self.gpu_disturbed if backend == "cuda" else self.cpu_disturbed
        return factor if devices == 1 else 1 + 3 * (factor - 1)

    def on(self, slowdown: float) -> Timing:
        """Return the settings for a GPU that is slower than an H200 by this factor."""
        return self.model_copy(update={"timeout": self.timeout * max(1.0, slowdown)})

    def budget(self, backend: str) -> float:
        """Return the maximum seconds for each clock and runnable."""
        return self.gpu_budget if backend == "cuda" else self.cpu_budget


class UpdateBatches(Model):
    """Entries inserted into a real matrix in batches. They are drawn at random with a fixed seed."""

    batches: int | None = Field(None, ge=1, le=1_000_000, description="Number of batches, of `share` each.")
    share: float | None = Field(
        None, gt=0, le=1e6, description="Entries of a batch, as a share of the matrix's non-zeros."
    )
    sizes: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="Entries of each batch, instead of `batches` and `share`."
    )
    rows: Literal["uniform", "degree"] = Field(
        "uniform", description="How rows are drawn: all alike, or each as often as it has entries."
    )
    order: Literal["sorted", "any"] = Field("any", description="Whether the rows of a batch ascend.")
    seed: int | None = Field(None, ge=0, description="Seed of the draw; absent: the campaign's.")

    @model_validator(mode="after")
    def _says_how_many(self) -> UpdateBatches:
        if (self.batches is None) != (self.share is None) or bool(self.sizes) == (self.share is not None):
            raise ValueError("needs either `batches` and `share`, or `sizes`")
        return self


class FieldFile(Model):
    """A file that contains a mesh and, as cell data, the modes of a discontinuous Galerkin field."""

    path: FilePath
    modes: str | None = Field(
        None, min_length=1, description="Name of the cell data with the modes; absent: the only modes_<basis>."
    )
    basis: BasisName | None = Field(None, description="Basis of the modes; absent: what follows modes_ in their name.")
    periodic: bool = Field(
        True, description="Whether a field continues at the opposite side of its mesh's bounding box."
    )


Place = Annotated[float | Literal["min", "max"], Field(union_mode="left_to_right")]


class Fixed(Model):
    """Selects the fixed vertices of an elastic body: vertices that meet all given conditions."""

    x: Place | None = Field(None, description="The plane of this x; min or max: that of the mesh.")
    y: Place | None = Field(None, description="The same for y.")
    z: Place | None = Field(None, description="The same for z.")
    box: tuple[tuple[float, float, float], tuple[float, float, float]] | None = Field(
        None, description="A box by its least and its greatest corner."
    )
    group: str | int | None = Field(None, description="A physical group of a Gmsh file, by its name or number.")

    @model_validator(mode="after")
    def _says_where(self) -> Fixed:
        if not self.model_dump(exclude_none=True):
            raise ValueError("needs one of x, y, z, box and group at the least")
        return self


def _several(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("expected a mapping such as {x: min}, or a list of such")
    return (value,) if isinstance(value, Mapping | Fixed) else value


class OwnProblem(FieldFile):
    """A matrix, mesh or field that the user provides in a local file."""

    path: FilePath = Field(
        description="A Matrix Market file, or a mesh in a format of docs/inputs.md. A relative path starts in the "
        "folder of the configuration's file; where nothing is there, in the current folder."
    )
    kind: Literal["field"] | None = Field(
        None, description="field: a mesh with the modes of a field on it; absent: a matrix, or what grows."
    )
    entry: EntryName | None = Field(
        None,
        description="What its non-zeros are; meshes need it: quaternion (surface) or block3 (tetrahedra).",
    )
    name: str | None = Field(None, description="Its name in tables; the file's stem if absent.")
    updates: UpdateBatches | None = Field(
        None, description="Entries to insert; the matrix's own are then real numbers."
    )
    fixed: Annotated[tuple[Fixed, ...], BeforeValidator(_several)] = Field(
        (),
        description="Of a tetrahedral mesh: where its vertices are fixed, one place or a list. Their rows and columns "
        "are left out; without any the matrix is singular, since the body may move.",
    )

    @model_validator(mode="after")
    def _is_fixed_if_elastic(self) -> OwnProblem:
        if self.fixed and self.entry != "block3":
            if self.entry is None:
                raise ValueError("`fixed` is of tetrahedral meshes: add `entry: block3`")
            use = "is for surfaces and" if self.entry == "quaternion" else "is not that of a tetrahedral mesh and"
            raise ValueError(f"`entry: {self.entry}` {use} has no `fixed`: write `entry: block3`")
        return self

    @model_validator(mode="after")
    def _grows_if_real(self) -> OwnProblem:
        if self.updates and self.entry not in (None, "real"):
            raise ValueError(f"updates are of real matrices, and the entry is {self.entry}")
        return self

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> OwnProblem:
        if self.kind == "field" and (self.entry or self.updates):
            raise ValueError("a field has no `entry` and no `updates`, which are of matrices")
        if self.kind != "field" and (self.modes or self.basis or not self.periodic):
            raise ValueError("`modes`, `basis` and `periodic` are of fields: add `kind: field`")
        return self

    @property
    def kind_of_problem(self) -> str:
        return self.kind or ("updates" if self.updates else "matrix")

    @property
    def wanted_entry(self) -> str | None:
        """Kind of entry set in the configuration; None to use the kind stated in the file."""
        return "real" if self.updates else self.entry


#: The operations that a rival can compute.
RivalTask = Literal["spmv", "spgemm", "solve", "updates"]
MAX_RIVAL_NAME = 64
RivalName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=MAX_RIVAL_NAME),
    expected(f"a letter or digit, then also . _ and -, at most {MAX_RIVAL_NAME} characters"),
]
#: A module or a file, then the object in it.
PythonObject = Annotated[
    str,
    Field(pattern=r"^[^:\x00-\x1f]+:[A-Za-z_][A-Za-z0-9_]*$", max_length=4000),
    expected("file.py:object or module:object, the object with methods setup, run and teardown"),
]
KernelName = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), expected("the name of a kernel: letters, digits and _")
]


class Rival(Model):
    """A kernel from outside the project, which is verified and timed beside ours."""

    name: RivalName = Field(description="Its name in tables and figures.")
    of: RivalTask = Field(
        "spmv",
        description="What it computes: y = A x, C = A B, the solution of A x = b, or a matrix that gets batches of "
        "entries.",
    )
    source: FilePath | None = Field(
        None,
        description="CUDA C++ that nvcc compiles, with include/repro_rival.h; found as the `path` of a problem is.",
    )
    library: FilePath | None = Field(
        None,
        description="A shared library with the functions of include/repro_rival.h, for the GPU or for the CPU; found "
        "as the `path` of a problem is.",
    )
    python: PythonObject | None = Field(
        None, description="module:object or file.py:object with the methods setup, run and teardown."
    )
    kernel: KernelName | None = Field(
        None,
        description="Of a source for spmv: the kernel to launch, in place of the functions of the header.",
    )
    block: int = Field(256, ge=1, le=1024, description="Threads per block of this kernel.")
    threads_per_row: int = Field(1, ge=1, le=1024, description="Threads per row of this kernel.")
    tuned: FilePath | None = Field(
        None,
        description="A cache file of Kernel Tuner, for this kernel: it is compiled with the fastest configuration as "
        "macros; `block_size_x` and `threads_per_row` replace `block` and `threads_per_row`.",
    )
    format: Literal["csr", "bsr"] = Field(
        "csr",
        description="How it wants matrices: csr, where compound entries are expanded to real numbers, or bsr, where "
        "they stay k×k blocks.",
    )
    offsets: Literal[32, 64] = Field(32, description="Bits of each row's offset.")
    waits: bool = Field(False, description="Whether it waits for the GPU; it is then timed by the clock `host` only.")

    @model_validator(mode="after")
    def _has_one_form(self) -> Rival:
        forms = [form for form in ("source", "library", "python") if getattr(self, form) is not None]
        if len(forms) != 1:
            has = " and ".join(forms) or "none"
            raise ValueError(f"a rival has either `source`, `library` or `python`, and this one has {has}")
        if self.kernel and (self.source is None or self.of != "spmv"):
            raise ValueError("`kernel` is of a `source` for spmv")
        if self.tuned and not self.kernel:
            raise ValueError("`tuned` is of a `kernel`")
        if self.format == "bsr" and self.of != "spmv":
            raise ValueError("`format: bsr` is of spmv: all else gets rows of real numbers, csr")
        return self


class StudySettings(Model):
    """Settings of one study. Defaults are in `config/studies/<study>.yaml`."""

    # Studies derive models with more keys or stricter ones: see `repro.studies.Study.settings`.

    problems: str | tuple[str | OwnProblem, ...] = Field(
        "generated",
        description="A set of the registry, or a list of sets, registered names and problems of your own.",
    )
    precisions: Annotated[tuple[Precision, ...], _Once] = Field(("single", "double"), min_length=1)
    layouts: Annotated[Literal["all"] | tuple[str, ...], _Once] = Field(
        "all", description="`all`, or layouts such as Sl-32-SoA-AoS."
    )
    space: Space | Annotated[tuple[Space, ...], Field(min_length=1), _Once] = Field(
        PAPER,
        description="The spaces of variants: paper (what the paper describes, to the letter), paper_tuned (as well the "
        "paper's kernels with further choices), extended (ours as well); or a list of exactly these.",
    )
    baselines: Annotated[Literal["all"] | tuple[str, ...], _Once] = Field(
        "all", description="`all`, or names of routines."
    )
    parts: Annotated[Literal["all"] | tuple[str, ...], _Once] = Field(
        "all", description="`all`, or names of what a study times beside its variants."
    )
    artifacts: Annotated[Literal["all"] | tuple[str, ...], _Once] = Field(
        "all",
        description="`all`, or names such as table-2. All are without the papers' tables and figures, targets and "
        "claims where every problem is a file of your own.",
    )
    cache: Cache = Field(
        "warm", description="State of the last-level cache before a launch in the search; the report has both."
    )
    search: Literal["exhaustive", "predicted", "random"] = Field(
        "exhaustive",
        description="Which variants are tried: all, the most promising by recorded campaigns, or a random sample.",
    )
    budget: float = Field(
        0.02, gt=0, le=1, description="Share of each space that a predicted or random search measures."
    )
    compile: Literal["ahead", "on_demand"] = Field(
        "ahead",
        description="Whether all modules of a space are compiled before it is searched, or each variant by itself when "
        "it is about to be tried: quicker for a predicted search of a few problems. Not all studies can.",
    )
    training: Annotated[Literal["all"] | tuple[CampaignName, ...], _Once] = Field(
        "all", description="Campaigns under results/ that a predicted search learns from: all others, or names."
    )
    edges: Annotated[tuple[Annotated[str, Field(pattern=EDGES)], ...], _Once] = Field(
        (),
        description="RECORD/TUNING, instead of a search: the winners of tunings in recorded campaigns that lie on an "
        "edge of their space, and variants beyond it, are timed in the same rounds.",
    )
    memory_weight: float = Field(
        0.0,
        ge=0,
        description="Weight w of memory in the choice `memory`, the least time·bytes^w; 0 leaves the choice out.",
    )
    timing: Timing = Timing()

    @property
    def is_own_alone(self) -> bool:
        """Whether all problems are the user's own files, and none is a paper's."""
        return isinstance(self.problems, tuple) and all(isinstance(item, OwnProblem) for item in self.problems)

    @property
    def edge_records(self) -> tuple[str, ...]:
        """Names of the campaigns in `edges`."""
        return tuple(dict.fromkeys(edge.partition("/")[0] for edge in self.edges))

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The search spaces to search, in this order."""
        if isinstance(self.space, tuple):
            return tuple(space for space in SPACES if space in self.space)
        return SPACES[: SPACES.index(self.space) + 1]


def _refuse_all_but(default: object) -> Callable[[Any], Any]:
    def refuse(value: Any) -> Any:
        if value != default:
            raise ValueError("the study has no use for it: leave the key out")
        return value

    return refuse


_UNUSED = "The study has no use for it."
#: Type of `layouts` and `memory_weight` in studies that do not use these keys. The default value is accepted because
#: recorded configurations contain all keys.
UnusedLayouts = Annotated[Literal["all"], BeforeValidator(_refuse_all_but("all")), Field(description=_UNUSED)]
UnusedWeight = Annotated[
    float,
    AfterValidator(_refuse_all_but(0.0)),
    Field(description=_UNUSED, json_schema_extra={"const": 0.0}),
]


class Config(Model):
    """The complete configuration of a campaign."""

    campaign: CampaignName = Field(
        "default", description="Names the folders results/<campaign> and figures/<campaign>."
    )
    device: DeviceWords = Field("auto", description=f"What to measure on: {DEVICE_MEANING}.")
    replay: bool = Field(
        False, description="Make the artifacts from the recorded results/<campaign>/raw; measure nothing."
    )
    beside: Annotated[tuple[CampaignName, ...], _Once] = Field(
        (),
        description="Other campaigns, recorded on other GPUs say, whose results stand beside this one's in tables, "
        "figures and report.",
    )
    as_published: CampaignName | None = Field(
        None,
        description="Another campaign, recorded on the same model of GPU, whose rows of the papers' kernels to the "
        "letter judge the claims of which this one has no such rows.",
    )
    later: CampaignName | None = Field(
        None,
        description="Another campaign, recorded later on the same model of GPU, whose main numbers of the studies that "
        "it measured again are named in this one's report.",
    )
    batch: int = Field(
        1,
        ge=1,
        le=500,  # names are passed in one shell argument, at most 128 KiB
        description="Maximum number of small problems that one job builds or measures.",
    )
    seed: int = Field(
        1, ge=0, lt=1 << 63, description="Seeds right-hand sides, generated fields and the order of rounds."
    )
    kernels: Annotated[FilePath, AfterValidator(_without_wildcards)] = Field(
        "kernels", description="Folder of the kernel templates; found as the `path` of a problem is, or in the package."
    )
    registry: FilePath = Field(
        "config/problems.yaml",
        description="The registry of problems; found as the `path` of a problem is, or in the package.",
    )
    fetch: Fetch = Fetch()
    repeats: Repeats = Field(
        Repeats(), description="What further processes time again, and on which devices: repeat.parquet."
    )
    limits: Limits = Field(Limits(), description="Limits for reading one file, yours or a fetched one.")
    rivals: tuple[Rival, ...] = Field(
        (), description="Your own kernels, timed beside ours in each study that measures what they compute."
    )
    studies: dict[str, SerializeAsAny[StudySettings]] = Field(
        default_factory=dict,
        min_length=1,
        description="Studies to run, with what differs from their defaults; false leaves one out.",
    )

    @property
    def has_several_devices(self) -> bool:
        """Whether `device` names several devices of one host."""
        return self.device.endswith(":all") or any(sign in self.device for sign in ",/")

    @field_validator("rivals")
    @classmethod
    def _names_rivals_once(cls, rivals: tuple[Rival, ...]) -> tuple[Rival, ...]:
        _once(tuple(rival.name for rival in rivals))
        return rivals
