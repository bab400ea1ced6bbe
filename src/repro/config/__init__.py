"""The configuration of a campaign and the registry of problems."""

from repro.config.load import load, resolve
from repro.config.models import Config, StudySettings

__all__ = ["Config", "StudySettings", "load", "resolve"]
