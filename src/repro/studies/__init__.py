"""Studies: one folder for each reproduced paper, the interface of a study, and the look-up of studies by name."""

from repro.studies.contract import CostModel, StepResult, Study, Workload
from repro.studies.registry import check_facts, get_study, load_artifacts, study_facts, study_module, study_names

__all__ = [
    "CostModel", "StepResult", "Study", "Workload", "check_facts", "get_study", "load_artifacts", "study_facts",
    "study_module", "study_names",
]  # fmt: skip
