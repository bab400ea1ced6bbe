"""Fetch or build each problem into one file; one that cannot be had becomes a record of the reason."""


rule problem:
    input:
        lambda wildcards: inputs([f"problem {wildcards.problem}"], []),
    output:
        matrix=f"{plan.results}/problems/{{problem}}.npz",
        record=f"{plan.results}/raw/problems/{{problem}}.json",
    log:
        f"{plan.logs}/problem/{{problem}}.log",
    conda:
        "../../environment.yml"
    params:
        repro=REPRO,
        config=plan.config_file,
    message:
        "Building {wildcards.problem}"
    shell:
        "{params.repro:q} problem {wildcards.problem:q} --config {params.config:q} --output {output.matrix:q}"
        " --record {output.record:q} --receipt --record-unavailable > {log:q} 2>&1"
