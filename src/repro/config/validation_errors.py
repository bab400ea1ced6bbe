"""Readable errors of a configuration: for each invalid key the allowed values, the given one, and the nearest match."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import takewhile
from typing import Any, Literal, NamedTuple, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from repro.words import shorten, suggestion

#: Type of errors that list the allowed values, such as those of `refuse_unknown`.
CHOICE = "choice"
#: Types of errors of scalar alternatives of a union; a mapping was certainly not meant as one of these.
SCALAR = {"string_type", "int_type", "float_type", "bool_type", "literal_error"}
Key = tuple[str, ...]


def refuse_unknown(expected: str, choices: Iterable[str]) -> PydanticCustomError:
    """Return the error of a validator for a value that is not `expected`; messages suggest the nearest of `choices`."""
    # Pydantic treats braces in a message as placeholders
    return PydanticCustomError(CHOICE, expected.replace("{", "(").replace("}", ")"), {"choices": list(choices)})


#: What a value has to be, by the type of Pydantic's error; in braces the error's context.
EXPECTED = {
    "string_type": "text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "greater_than_equal": "at least {ge:,}",
    "greater_than": "more than {gt:,}",
    "less_than_equal": "at most {le:,}",
    "less_than": "less than {lt:,}",
    "too_short": "at least {min_length} in the list",
    "too_long": "at most {max_length} in the list",
    "invalid_key": "text as the key",
}
LISTS = ("tuple_type", "list_type")
MAPPINGS = ("dict_type", "model_type", "model_attributes_type", "mapping_type")


class Misfit(NamedTuple):
    """What does not fit at a key of a configuration."""

    #: Where the key stands, such as `mine.yaml:3:9: `; empty if unknown.
    position: str
    key: Key
    #: What it may be; None if `actual` says it.
    expected: str | None
    actual: str

    @property
    def place(self) -> str:
        return f"{self.position}{shorten('.'.join(self.key)) or '(top level)'}"

    def __str__(self) -> str:
        return f"{self.place}: {self.actual}{f' (expected {self.expected})' if self.expected else ''}"


def misfits(
    error: ValidationError, model: type[BaseModel], data: Any, locate: Callable[[Key], str] = lambda key: ""
) -> list[Misfit]:
    """Return what is wrong at each invalid key. Of a union, only the alternative with the deepest errors is reported.

    `locate` returns the position of a key, such as `mine.yaml:3:9: `; empty if it is unknown.
    """
    expected: dict[Key, list[str]] = {}
    actual: dict[Key, list[str]] = {}
    placed = [
        (*_place(model, item["loc"], data, is_missing=item["type"] == "missing"), item)
        for item in error.errors(include_url=False)
    ]
    # mappings that one of our validators refused as a whole: its sentence is printed without the mapping's value, and
    # scalar-type errors at the same place are dropped
    whole_places = {
        key for key, _, item in placed if item["type"] == "value_error" and isinstance(item["input"], Mapping)
    }
    # a text among the few that a union allows is no item of a list either
    limited_places = {key for key, _, item in placed if len(_choices(item.get("ctx", {}))) > 1}
    for place, (siblings, inner_keys), item in placed:
        kind, value, context = item["type"], item["input"], item.get("ctx", {})
        if place in whole_places and kind in SCALAR:
            continue
        key = place
        if kind == "extra_forbidden":
            homes = _nearest_homes(model, key)
            may_be = " or ".join(_under(home, locate) for home in homes) or f"one of the keys {', '.join(siblings)}"
            may_be = f"`{shorten(key[-1])}` {may_be}" if homes else may_be
            actual_text = f"unknown key, {shown(value)}{'' if homes else suggestion(key[-1], siblings)}"
        elif kind == "missing" or ("discriminator" in context and "tag" not in context):
            if kind != "missing":  # Pydantic reports the mapping around the key
                key = (*key, context["discriminator"].strip("'"))
            may_be, actual_text = f"the key `{key[-1]}`", f"missing in {shown(value)}"
        elif kind == "value_error":
            message = item["msg"].removeprefix("Value error, ")
            says_all = not message.startswith(SAYS_EXPECTED)
            may_be = "" if says_all else message.removeprefix(SAYS_EXPECTED)
            actual_text = message if says_all else shown(value)
            if says_all and not isinstance(value, Mapping):
                actual_text = f"{actual_text} (is {shown(value)})"
        else:
            if "discriminator" in context:
                key, value = (*key, context["discriminator"].strip("'")), context["tag"]
            choices = _choices(context)
            may_be = _expected(item, choices, inner_keys, place in limited_places)
            actual_text = f"{shown(value)}{_suggested(value, choices, kind)}"
        expected.setdefault(key, []).append(may_be)
        actual.setdefault(key, []).append(actual_text)
    deepest = [key for key in actual if not any(longer[: len(key)] == key and longer != key for longer in actual)]
    return [
        Misfit(
            locate(key),
            key,
            " or ".join(dict.fromkeys(filter(None, expected[key]))) or None,
            max(actual[key], key=len),  # of a union's alternatives, the one with a suggestion
        )
        for key in deepest
    ]


#: Begins the sentence of a validator that says what is expected, and not what is wrong.
SAYS_EXPECTED = "expected "


def _expected(item: Mapping[str, Any], choices: Sequence[str], inner_keys: Sequence[str], is_wrong_item: bool) -> str:
    """Return the allowed values that an error implies, in the words of a configuration file."""
    kind, context = item["type"], item.get("ctx", {})
    if kind == CHOICE:
        return str(item["msg"])
    if kind in LISTS:
        return _list_for(item["input"], is_wrong_item)
    if kind in MAPPINGS:
        return f"a mapping with some of the keys {', '.join(inner_keys)}" if inner_keys else "a mapping"
    if choices:
        return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
    return EXPECTED[kind].format(**context) if kind in EXPECTED else str(item["msg"])


def _suggested(value: object, choices: Sequence[str], kind: str) -> str:
    """Return a suggestion for a wrong value, such as the nearest choice, or nothing."""
    if kind == "string_type" and isinstance(value, int | float | date) and not isinstance(value, bool):
        return f"; in quotes, '{value}', it is text"
    if isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()  # such as {kind: cpu}
    return suggestion(value, choices)


def shown(value: object) -> str:
    """Return a value as a configuration's file has it, shortened; texts are quoted."""
    if isinstance(value, str):
        return shorten(repr(value))
    try:
        text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    except (yaml.YAMLError, RecursionError):  # an object that no file can have
        text = repr(value)
    return shorten(text.removesuffix("\n").removesuffix("\n..."))


#: Part of a key in place of a name that the user chooses.
ANY_NAME = "<name>"


#: Maximum number of places that a message names for a key.
MAX_HOMES = 3


def _nearest_homes(model: type[BaseModel], key: Key) -> list[Key]:
    """Return the places for the last part of a key that share most of it, such as those in the same study."""
    homes = [*_homes(model, key[-1])]
    shared = [len([*takewhile(lambda pair: pair[0] == pair[1], zip(home, key, strict=False))]) for home in homes]
    return [home for home, parts in zip(homes, shared, strict=True) if parts == max(shared)][:MAX_HOMES]


def _homes(model: type[BaseModel], name: str, place: Key = ()) -> Iterator[Key]:
    """Yield the keys of all mappings of a configuration that may have the key `name`; those in lists are left out."""
    if name in model.model_fields:
        yield place
    for field_name, field in model.model_fields.items():
        annotation, inner_place = field.annotation, (*place, field_name)
        if get_origin(annotation) is dict:
            annotation, inner_place = get_args(annotation)[1], (*inner_place, ANY_NAME)
        annotation = getattr(annotation, "__origin__", annotation)  # the plain type of `Annotated[…]`
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _homes(annotation, name, inner_place)


def _under(home: Key, locate: Callable[[Key], str]) -> str:
    """Say where a key belongs, and where that stands: `under studies.dynamic_csr (mine.yaml:5:3)`."""
    if not home:
        return "at the top level"
    place = "" if ANY_NAME in home else locate(home).removesuffix(": ")
    return f"under {'.'.join(home)}{f' ({place})' if place else ''}"


def _list_for(value: object, is_wrong: bool) -> str:
    """Return advice to write a single value as a list, unless it would be invalid as an item too."""
    if isinstance(value, str | int | float) and not is_wrong:
        return f"a list: write `[{shorten(str(value))}]`"
    if not isinstance(value, Mapping) or not value:
        return "a list, [in brackets]"
    key, inner = next(iter(value.items()))
    return f"a list: write `- {shorten(f'{key}: {inner}')}`"


def _choices(context: Mapping[str, Any]) -> list[str]:
    """Return the allowed values that an error's context contains."""
    if "choices" in context:
        return list(context["choices"])
    # text such as "'single' or 'double'" for a literal, "'own', 'field'" for the tags of a union
    return re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))


def _place(
    model: type[BaseModel], location: Sequence[int | str], data: Any, *, is_missing: bool
) -> tuple[Key, tuple[list[str], list[str]]]:
    """Return the key at an error's location, without names that Pydantic adds for unions, the allowed keys beside it,
    and those of a mapping at it.
    """
    key: list[str] = []
    models = outer_models = inner_models = [model]
    for number, part in enumerate(location, start=1):
        is_list_entry = isinstance(part, int) and isinstance(data, Sequence) and not isinstance(data, str)
        if len(models) > 1 and (tagged := [candidate for candidate in models if part in _tags(candidate)]):
            models = tagged  # the name of an alternative, which a key inside it may have too
        elif (isinstance(data, Mapping) and part in data) or (is_list_entry and int(part) < len(data)):
            data = data[part]
            key.append(str(part))
            outer_models, fields = models, [candidate.model_fields.get(str(part)) for candidate in models]
            # indices and keys of mappings name no field
            models = [candidate for field in fields if field for candidate in _models(field)] or models
            inner_models = models if isinstance(part, int) or models is not outer_models else []
        elif is_missing and number == len(location):
            key.append(str(part))
    siblings, inner_keys = (
        list(dict.fromkeys(field for candidate in candidates for field in candidate.model_fields))
        for candidates in (outer_models, inner_models)
    )
    return tuple(key), (siblings, inner_keys)


def _tags(model: type[BaseModel]) -> list[str]:
    """Return the values that distinguish a model from the other alternatives of a union: its required literals."""
    fields = [field for field in model.model_fields.values() if field.is_required()]
    return [
        value for field in fields if get_origin(field.annotation) is Literal for value in get_args(field.annotation)
    ]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return all models in an annotation or a field, such as a union or a tuple."""
    annotation = getattr(annotation, "annotation", annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
