"""The names of Matplotlib that figures use, imported at first access.

Importing Matplotlib takes 0.3 s, and most commands only need the names of figures and draw nothing.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib import style
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure
    from matplotlib.font_manager import get_font_names
    from matplotlib.lines import Line2D
    from matplotlib.offsetbox import VPacker
    from matplotlib.patches import Patch
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatterSciNotation, MaxNLocator, NullLocator
    from matplotlib.transforms import ScaledTranslation

__all__ = [
    "BarContainer", "Figure", "FixedLocator", "FuncFormatter", "Line2D",
    "LogFormatterSciNotation", "MaxNLocator", "NullLocator", "Patch",
    "PathCollection", "ScaledTranslation", "VPacker",
    "get_font_names", "style", "withStroke",
]  # fmt: skip
#: The module of Matplotlib that has each name.
MODULES = {
    **dict.fromkeys(("FixedLocator", "FuncFormatter", "LogFormatterSciNotation"), "ticker"),
    **dict.fromkeys(("MaxNLocator", "NullLocator"), "ticker"),
    "BarContainer": "container",
    "Figure": "figure",
    "Line2D": "lines",
    "Patch": "patches",
    "PathCollection": "collections",
    "ScaledTranslation": "transforms",
    "VPacker": "offsetbox",
    "get_font_names": "font_manager",
    "withStroke": "patheffects",
}


def __getattr__(name: str) -> Any:
    """Import a name at first access."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "matplotlib" not in sys.modules:
        _import_without_settings()
    home = f"matplotlib.{MODULES[name]}" if name in MODULES else "matplotlib"
    # like `from home import name`, this also imports submodules, such as `style`
    attribute = globals()[name] = getattr(__import__(home, fromlist=[name]), name)
    return attribute


def _import_without_settings() -> None:
    """Import Matplotlib without the user's settings, which figures do not use, and without its notes.

    It notes that its cache cannot be written, and each key of `matplotlibrc` that it does not know; it fails for an
    unknown MPLBACKEND.
    """
    for name in ("matplotlib", "fontTools"):
        logging.getLogger(name).setLevel(logging.ERROR)
    package = find_spec("matplotlib")
    own_settings = Path(str(package.origin)).parent / "mpl-data/matplotlibrc" if package else Path()
    names = ("MPLBACKEND", "MATPLOTLIBRC")
    kept = {name: os.environ.pop(name, None) for name in names}
    os.environ["MATPLOTLIBRC"] = str(own_settings)
    try:
        __import__("matplotlib")
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in kept.items() if value is not None})
