"""What a file of a plugin package does wrong is one message with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.errors import ReproError
from repro.plugins import import_all


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("misnamed", "import json\n\njson.loads(texts)\n", "NameError: name 'texts' is not defined"),
        ("misused", "import json\n\njson.loads('{')\n", "JSONDecodeError: Expecting property name"),
        ("misspelt", "\n\nx = (\n", "SyntaxError: "),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_by_file_and_line(
    tmp_path: Path, monkeypatch, name, text, said
) -> None:
    package = tmp_path / f"plugins_{name}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ReproError) as error:
        import_all(package.name, [str(package)])
    assert error.value.where == f"{package / 'first.py'}:3"
    assert str(error.value.actual).startswith(said)
