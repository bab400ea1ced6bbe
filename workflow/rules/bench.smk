"""Measure one problem of a study in one precision: every variant, the baselines, then the winners once more."""


rule measure:
    input:
        matrix=rules.problem.output.matrix,
        modules=lambda wildcards: plan.manifests(**wildcards),
    output:
        f"{plan.results}/raw/{{study}}/{{problem}}/{{precision}}/search.parquet",
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
    message:
        "Measuring every variant on {wildcards.problem}, {wildcards.precision}"
    shell:
        "repro measure {wildcards.study} {wildcards.problem:q} {wildcards.precision} --config {params.config:q}"
        " > {log:q} 2>&1"


rule baseline:
    input:
        matrix=rules.problem.output.matrix,
        modules=plan.common_manifest,
    output:
        f"{plan.results}/raw/{{study}}/{{problem}}/{{precision}}/baseline.parquet",
    log:
        f"{plan.logs}/baseline/{{study}}/{{problem}}/{{precision}}.log",
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
        "Measuring the baselines on {wildcards.problem}, {wildcards.precision}"
    shell:
        "repro baseline {wildcards.study} {wildcards.problem:q} {wildcards.precision} --config {params.config:q}"
        " > {log:q} 2>&1"


rule select:
    input:
        rules.measure.output,
        rules.baseline.output,
        matrix=rules.problem.output.matrix,
        modules=lambda wildcards: plan.manifests(**wildcards),
    output:
        report=f"{plan.results}/raw/{{study}}/{{problem}}/{{precision}}/report.parquet",
        choices=f"{plan.results}/raw/{{study}}/{{problem}}/{{precision}}/choices.parquet",
    log:
        f"{plan.logs}/select/{{study}}/{{problem}}/{{precision}}.log",
    conda:
        "../../environment.yml"
    threads: 1 if plan.on_gpu else workflow.cores
    resources:
        gpu=1 if plan.on_gpu else 0,
    params:
        config=plan.config_file,
    message:
        "Measuring the winners on {wildcards.problem}, {wildcards.precision}, once more"
    shell:
        "repro select {wildcards.study} {wildcards.problem:q} {wildcards.precision} --config {params.config:q}"
        " > {log:q} 2>&1"
