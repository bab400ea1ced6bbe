"""Builders, doubles, checks and campaigns that tests use: all of them lie here, whichever folder's tests need them.

Elsewhere in the tests are fixtures (`conftest.py`), programs that are run by hand (`random_kills`, `random_edits` and
`many_problems` of workflow, `set_up_times` and `shapes_alone` of gpu, `simulated_collection` of docs), and two whole
studies, `product_study` and `small_study`: trees that tests and readers lay over a checkout, as a study of one's own.

Functions have types, apart from those of doubles of libraries that have none (`fake_cuda`, `host_cusparse`,
`stand_in_cupy`) and from rivals as their users write them (`spoilt_rivals`).
"""
