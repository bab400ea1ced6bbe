"""Counts what makes the source easy or hard to read, and prints it beside its targets: `make census`.

Files are read by `ast`, and imports by grimp: also those inside functions and those for type checkers alone. What each
line counts is said by the function behind it.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grimp import ImportGraph

REPOSITORY = Path(__file__).parents[1]
ROOT = "repro"

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: Folders below the package whose code reads recorded rows for tables, figures and choices.
READERS = ("studies", "results")
#: Receivers of string keys that are no rows: problems' records, published tables, compilers' reports.
OTHER_MAPPINGS = frozenset(
    {"definition", "facts", "origin", "parameters", "published", "record", "resources", "statistics", "tables"}
)
#: The type of a line of a published table.
PUBLISHED_LINE = "Record"


@dataclass
class Source:
    """A module: its name, its text, and its syntax tree."""

    name: str
    text: str
    tree: ast.Module = field(repr=False)

    @property
    def lines(self) -> int:
        """Lines of the file."""
        return len(self.text.splitlines())

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the syntax tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        """Texts that stand as statements: behind the head of a module, class or function, or behind a field."""
        return [
            node.value
            for node in self.nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]

    @property
    def only_exports(self) -> bool:
        """Whether it is an `__init__` that has a docstring, imports and `__all__` alone."""
        return self.name.endswith(".__init__") and all(_exports(statement) for statement in self.tree.body)


def _exports(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
    return False


def read(folder: Path, root: str = ROOT) -> list[Source]:
    """Return the modules of a package that lies in a folder; a package's own file is `<package>.__init__`."""
    sources = []
    for path in sorted((folder / root).rglob("*.py")):
        text = path.read_text()
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        sources.append(Source(name, text, ast.parse(text)))
    return sources


def module_lines(sources: Iterable[Source]) -> list[int]:
    """Return the lines of each module, but for `__init__` files that only export."""
    return [source.lines for source in sources if not source.only_exports]


def long_modules(sources: Iterable[Source], most: int = 700) -> list[str]:
    """Return the modules of more than `most` lines."""
    return sorted(source.name for source in sources if source.lines > most)


def function_lines(sources: Iterable[Source]) -> list[int]:
    """Return the lines of each function and method, nested ones too: from `def` to the end, with the docstring."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for source in sources
        for node in source.nodes
        if isinstance(node, Function)
    ]


def docstring_lines(sources: Iterable[Source]) -> int:
    """Return how many lines docstrings take."""
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for source in sources for node in source.docstrings)


def parse_calls(sources: Iterable[Source]) -> list[str]:
    """Return where `parse` of an id's class is used: any attribute of this name but that of an imported module."""
    found = []
    for source in sources:
        modules = {
            (alias.asname or alias.name).partition(".")[0]
            for node in source.nodes
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        found += [
            f"{source.name}:{node.lineno}"
            for node in source.nodes
            if isinstance(node, ast.Attribute) and node.attr == "parse" and _last_name(node.value) not in modules
        ]
    return found


def _last_name(node: ast.expr) -> str:
    """Return the name that a value is known by: `rows` of `case.rows`, `case.rows[0]` and `case.rows()`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value) | ast.Call(func=value):
            return _last_name(value)
    return ""


def row_keys(sources: Iterable[Source], columns: Collection[str]) -> list[str]:
    """Return where code that reads rows names a column of theirs by text: `row["status"]`, `row.get("status")`.

    A column is a field of `Row` or a study's own. Values of another origin do not count: groups of a pattern's match,
    lines of published tables, and those of `OTHER_MAPPINGS`. Assignments to a column do not count either.
    """
    found = []
    for source in sources:
        if source.name.split(".")[1] not in READERS:
            continue
        for scope in _scopes(source.tree):
            others = OTHER_MAPPINGS | set(_other_names(scope))
            found += [
                f"{source.name}:{node.lineno}"
                for node, receiver in _keyed(scope, columns)
                if _last_name(receiver) not in others
            ]
    return found


def _scopes(tree: ast.Module) -> Iterator[list[ast.AST]]:
    """Yield the nodes of each outermost function, and those of the module and its classes that are in none."""
    functions: list[Function] = []
    rest: list[ast.AST] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Function):
            functions.append(node)
        else:
            rest.append(node)
            pending += ast.iter_child_nodes(node)
    yield rest
    yield from (list(ast.walk(function)) for function in functions)


def _keyed(nodes: Iterable[ast.AST], columns: Collection[str]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each expression that reads by a column's name, or by a list of them, and what it reads from."""
    for node in nodes:
        match node:
            case ast.Subscript(value=receiver, slice=key, ctx=ast.Load()):
                pass
            case ast.Call(func=ast.Attribute(value=receiver, attr="get"), args=[key, *_]):
                pass
            case _:
                continue
        keys = key.elts if isinstance(key, ast.List) else [key]
        if keys and all(isinstance(item, ast.Constant) and item.value in columns for item in keys):
            yield node, receiver


def _other_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that hold a pattern's match or a line of a published table."""
    for node in nodes:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                if isinstance(value, ast.Call) and _last_name(value) in ("match", "fullmatch", "search", "groupdict"):
                    yield name
            case (
                ast.For(target=ast.Name(id=name), iter=values)
                | ast.comprehension(target=ast.Name(id=name), iter=values)
            ):
                if OTHER_MAPPINGS & {_last_name(part) for part in ast.walk(values) if isinstance(part, ast.expr)}:
                    yield name
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                if PUBLISHED_LINE in {_last_name(part) for part in ast.walk(annotation) if isinstance(part, ast.expr)}:
                    yield name


def time_files(sources: Iterable[Source], times: Collection[str]) -> list[str]:
    """Return the modules that name a column of a time: as text, as a field, or in two halves, `f"{clock}_median"`.

    Parameters
    ----------
    sources
        The modules.
    times
        The columns, each a clock, `_` and a quantile or `samples`.
    """
    clocks, others = ({name.partition("_")[part] for name in times} for part in (0, 2))
    halves = {f"{clock}_" for clock in clocks} | {f"_{other}" for other in others}
    return [source.name for source in sources if _names_one(source, times, halves)]


def _names_one(source: Source, names: Collection[str], halves: Collection[str]) -> bool:
    docstrings = set(map(id, source.docstrings))
    for node in source.nodes:
        match node:
            case ast.Constant(value=str(name)) | ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=name):
                if name in names and id(node) not in docstrings:
                    return True
            case ast.JoinedStr(values=parts):
                if any(isinstance(part, ast.Constant) and part.value in halves for part in parts):
                    return True
    return False


def circles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other, smallest names first."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for other in edges.get(pending.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return seen

    beyond = {node: reached(node) for node in edges}
    groups = {
        tuple(sorted(other for other in beyond[node] if node in beyond.get(other, ())))
        for node in edges
        if node in beyond[node]
    }
    return sorted([*group] for group in groups)


def module_imports(graph: ImportGraph) -> dict[str, set[str]]:
    """Return what each module imports."""
    return {module: {*graph.find_modules_directly_imported_by(module)} for module in graph.modules}


def package_imports(imports: Mapping[str, Collection[str]], root: str = ROOT) -> dict[str, set[str]]:
    """Return which folders each folder imports from; the root, which all code asks for the version, is left out."""
    folders = {module.rpartition(".")[0] for module in imports}

    def folder(module: str) -> str:
        return module if module in folders else module.rpartition(".")[0]

    found: dict[str, set[str]] = {}
    for module, others in imports.items():
        for other in others:
            here, there = folder(module), folder(other)
            if here != there and root not in (here, there):
                found.setdefault(here, set()).add(there)
    return found


def upward_imports(imports: Mapping[str, Collection[str]], layers: Iterable[str]) -> list[str]:
    """Return the imports of a higher layer by a lower one; layers come from the top, `a | b` on one level."""
    level = {name.strip(): number for number, layer in enumerate(layers) for name in layer.split("|")}

    def of(module: str) -> int | None:
        return level.get(module.split(".")[1]) if "." in module else None

    return sorted(
        f"{module} -> {other}"
        for module, others in imports.items()
        for other in others
        if (here := of(module)) is not None and (there := of(other)) is not None and there < here
    )


def study_imports(imports: Mapping[str, Collection[str]], root: str = ROOT) -> list[str]:
    """Return what people take away with a study behind it: imports of a study by operators and export."""
    return sorted(
        f"{module} -> {other}"
        for module, others in imports.items()
        if module.startswith((f"{root}.operators", f"{root}.export"))
        for other in others
        if other == f"{root}.studies" or other.startswith(f"{root}.studies.")
    )


@dataclass(frozen=True)
class Line:
    """A line of the census."""

    what: str
    value: float
    target: float
    #: Whether the target is the least that is wanted, else the most.
    at_least: bool = False
    #: What a test holds today, where the target is not reached yet: the number may only come nearer to the target.
    limit: float | None = None
    unit: str = ""
    #: Where what is counted stands.
    places: tuple[str, ...] = ()

    @property
    def is_met(self) -> bool:
        """Whether the target is reached."""
        return self._reaches(self.target)

    @property
    def is_held(self) -> bool:
        """Whether the limit of today is kept: that is the target, where no limit is named."""
        return self._reaches(self.target if self.limit is None else self.limit)

    def _reaches(self, bound: float) -> bool:
        return self.value >= bound if self.at_least else self.value <= bound


def census() -> list[Line]:
    """Count the package of this repository."""
    import grimp

    from repro.bench.rows import ALL_CLOCKS, COMMON_COLUMNS
    from repro.studies import get_study, study_names

    sources = read(REPOSITORY / "src")
    times = [name for name in COMMON_COLUMNS if name.partition("_")[0] in ALL_CLOCKS and not name.endswith("_launches")]
    columns = {*COMMON_COLUMNS, *(column for name in study_names() for column in get_study(name).columns)}
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    imports = module_imports(grimp.build_graph(ROOT, cache_dir=None))
    modules, functions = module_lines(sources), function_lines(sources)
    lines = sum(source.lines for source in sources)

    def places(what: str, target: int, found: Iterable[str]) -> Line:
        there = tuple(found)
        return Line(what, len(there), target, places=there)

    def groups(what: str, edges: Mapping[str, Collection[str]]) -> Line:
        return places(what, 0, (", ".join(group) for group in circles(edges)))

    return [
        Line("modules, without __init__ files that only export", len(modules), 260, limit=280),
        Line("lines of a module, median", statistics.median(modules), 150, at_least=True),
        places("modules of over 700 lines, to be parted before 800", 4, long_modules(sources)),
        Line("functions", len(functions), float("inf")),
        Line("lines of a function, median", statistics.median(functions), 9, at_least=True, limit=6),
        Line("lines of src", lines, 58_000, limit=92_775),
        Line("of these docstrings", 100 * docstring_lines(sources) / lines, 15, unit=" %"),
        places("calls that parse an id", 8, parse_calls(sources)),
        places("rows read by string keys, in studies and results", 60, row_keys(sources, columns)),
        places("files that name the columns of a time", 3, time_files(sources, times)),
        groups("circles of modules", imports),
        groups("circles of packages", package_imports(imports)),
        places("imports upwards", 0, upward_imports(imports, layers)),
        places("imports of a study by operators and export", 0, study_imports(imports)),
    ]


def table(lines: Iterable[Line], show: Callable[[Line], bool] = lambda line: False) -> str:
    """Return the census as text; of lines that `show` picks the places follow."""
    text = [f"{'':52} {'today':>9}  {'target':10} held by a test", "-" * 90]
    for line in lines:
        number = f"{line.value:,.1f}".removesuffix(".0") + line.unit
        sign = "≥" if line.at_least else "≤"
        target = "" if line.target == float("inf") else f"{sign} {line.target:,}{line.unit}"
        held = target if line.limit is None else f"{sign} {line.limit:,}{line.unit}"
        text.append(f"{line.what:52} {number:>9}  {target:10} {held:10} {'' if line.is_met else 'not yet'}".rstrip())
        text += [f"    {place}" for place in line.places if show(line)]
    return "\n".join(text)


if __name__ == "__main__":
    wanted = sys.argv[1:]
    print(table(census(), lambda line: any(word in line.what for word in wanted)))
