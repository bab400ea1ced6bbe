"""The configuration of a campaign and the registry of problems."""

from repro.config.load import load, resolve
from repro.config.models import Config, Study

__all__ = ["Config", "Study", "load", "resolve"]
