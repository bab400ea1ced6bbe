"""As few launches as a test of the steps of measuring can do with."""

from __future__ import annotations

from typing import Any

QUICK: dict[str, Any] = {
    "screen_launches": 3,
    "finalists": 2,
    "launches": 10,
    "search_graph_launches": 2,
    "search_graph_replays": 5,
    "graph_launches": 2,
    "graph_replays": 6,
    "cold_launches": 6,
    "rounds": 2,
    "cpu_budget": 1.0,
    "noise": 1e9,
    "cpu_disturbed": 1e9,
}
