"""The columns of this study's rows, in addition to the columns of all rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class DgRow(RecordedRow):
    """A row of a method in the plane, of the filter's matrix, or of regions in space."""

    #: Columns for methods of filtering in the plane.
    way: str | None
    threads: int | None
    cell: float | None
    blocks: int | None
    what: str | None
    kernel_degree: int | None
    #: Columns of rows that time a method of integrating over regions.
    method: str | None
    vector_width: int | None
    regions_per_block: int | None
    blocks_per_sm: int | None
    #: Columns for one region.
    region_operations: int | None
    shared_bytes: int | None
    regions: int | None
    points: int | None
    triangles: int | None
    degree: int | None
    scale: float | None
    #: Columns for all points together.
    pairs: int | None
    subtriangles: int | None
    segments: int | None
    copies: int | None
    devices: int | None
    fields: int | None
    #: Errors of the unfiltered field; the columns below are errors of the filtered field.
    dg_l2_error: float | None
    dg_max_error: float | None
    l2_error: float | None
    max_error: float | None
    mean_scale: float | None
    local_pairs: int | None
    matrix_pairs: int | None
    matrix_bytes: int | None
    routine: str | None
    #: Seconds of each stage of clipping.
    stage_count: float | None
    stage_scan: float | None
    stage_write: float | None
