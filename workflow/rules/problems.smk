"""Fetch or build each problem into one file; for an unavailable problem, record the reason."""


rule problem:
    input:
        lambda wildcards: inputs([f"problem {wildcards.problem}"], []),
    output:
        matrix=str(plan.folder.problem("{problem}")),
        record=str(plan.folder.record("{problem}")),
    log:
        f"{plan.logs}/problem/{{problem}}.log",
    conda:
        ENVIRONMENT
    resources:
        **asked(lambda problem: requests.building([problem])),
    params:
        repro=REPRO,
        config=plan.config_file,
    message:
        "Building {wildcards.problem}"
    shell:
        "{params.repro:q} problem {wildcards.problem:q} --config {params.config:q} --output {output.matrix:q}"
        " --record {output.record:q} --receipt --record-unavailable > {log:q} 2>&1"


if batches.building:

    rule problem_batch:
        input:
            lambda wildcards: inputs(batches[f"problems/{wildcards.batch}"].steps, []),
        output:
            str(plan.folder.batch("problems/{batch}")),
        log:
            f"{plan.logs}/batches/problems/{{batch}}.log",
        conda:
            ENVIRONMENT
        resources:
            **asked(
                lambda batch: requests.building(batches[f"problems/{batch}"].problems)
            ),
        params:
            repro=REPRO,
            config=plan.config_file,
            problems=lambda wildcards: batches[f"problems/{wildcards.batch}"].problems,
        message:
            "Building batch {wildcards.batch}"
        shell:
            "{params.repro:q} batch problems {params.problems:q} --config {params.config:q} --output {output:q}"
            " > {log:q} 2>&1"
