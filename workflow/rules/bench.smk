"""Measure one problem of a study in one precision: every variant, then the winners once more beside the library."""


rule measure:
    input:
        matrix=rules.problem.output.matrix,
        modules=lambda wildcards: plan.manifests(**wildcards),
    output:
        multiext(
            f"{plan.results}/raw/{{study}}/{{problem}}/{{precision}}/",
            "search.parquet",
            "baseline.parquet",
            "report.parquet",
            "choices.parquet",
        ),
    log:
        f"{plan.logs}/measure/{{study}}/{{problem}}/{{precision}}.log",
    conda:
        "../../environment.yml"
    threads: 1 if plan.on_gpu else workflow.cores
    resources:
        gpu=1 if plan.on_gpu else 0,
    params:
        config=plan.config_file,
        protocol=lambda wildcards: plan.protocol(wildcards.study),
        baselines=lambda wildcards: plan.studies[wildcards.study].settings.baselines,
    message:
        "Measuring {wildcards.problem}, {wildcards.precision}"
    shell:
        "repro measure {wildcards.study} {wildcards.problem:q} {wildcards.precision} --config {params.config:q}"
        " > {log:q} 2>&1"
