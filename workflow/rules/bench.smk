"""Measure one problem of a study in one precision, by the study's own steps, each of which writes a file."""

for study in plan.studies.values():

    rule:
        name:
            f"measure_{study.name}"
        input:
            lambda wildcards, study=study.name: inputs(
                [f"measure {study} {wildcards.problem} {wildcards.precision}"],
                plan.read_by_case(study, **wildcards),
            ),
        output:
            multiext(
                f"{plan.results}/raw/{study.name}/{{problem}}/{{precision}}/",
                *plan.steps(study.name),
            ),
        log:
            f"{plan.logs}/measure/{study.name}/{{problem}}/{{precision}}.log",
        conda:
            "../../environment.yml"
        threads: lambda wildcards: 1 if plan.on_gpu else workflow.cores
        resources:
            gpu=1 if plan.on_gpu else 0,
        params:
            repro=REPRO,
            config=plan.config_file,
            study=study.name,
        message:
            "Measuring {wildcards.problem}, {wildcards.precision}, of {params.study}"
        shell:
            "{params.repro:q} measure {params.study} {wildcards.problem:q} {wildcards.precision}"
            " --config {params.config:q} --receipt --record-failures > {log:q} 2>&1"
