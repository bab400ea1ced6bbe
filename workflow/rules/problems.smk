"""Fetch or build each problem into one file; one that cannot be had becomes a record of the reason."""


rule problem:
    input:
        source=lambda wildcards: plan.problems[wildcards.problem].source or [],
    output:
        matrix=f"{plan.results}/problems/{{problem}}.npz",
        record=f"{plan.results}/raw/problems/{{problem}}.json",
    log:
        f"{plan.logs}/problem/{{problem}}.log",
    conda:
        "../../environment.yml"
    params:
        code=plan.building_code,
        config=plan.config_file,
        definition=lambda wildcards: plan.problems[wildcards.problem].definition,
        seed=plan.config.seed,
    message:
        "Building {wildcards.problem}"
    shell:
        "repro problem {wildcards.problem:q} --config {params.config:q} --output {output.matrix:q}"
        " --record {output.record:q} --record-unavailable > {log:q} 2>&1"
