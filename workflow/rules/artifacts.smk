"""Tables and figures, from the raw results and the published numbers alone."""


rule table:
    input:
        raw=lambda wildcards: plan.raw(wildcards.study),
        published=plan.published,
    output:
        multiext(f"{plan.results}/tables/{{study}}/{{table}}", ".csv", ".md", ".tex"),
    log:
        f"{plan.logs}/table/{{study}}/{{table}}.log",
    conda:
        "../../environment.yml"
    params:
        code=plan.code("tuning", "artifacts"),
        config=plan.config_file,
    message:
        "Making {wildcards.table}"
    shell:
        "repro table {wildcards.table} --study {wildcards.study} --config {params.config:q} > {log:q} 2>&1"


rule figure:
    input:
        raw=lambda wildcards: plan.raw(wildcards.study),
        published=plan.published,
    output:
        multiext(f"{plan.figures}/{{study}}/{{figure}}", ".pdf", ".svg", ".png"),
    log:
        f"{plan.logs}/figure/{{study}}/{{figure}}.log",
    conda:
        "../../environment.yml"
    params:
        code=plan.code("tuning", "artifacts"),
        config=plan.config_file,
    message:
        "Making {wildcards.figure}"
    shell:
        "repro figure {wildcards.figure} --study {wildcards.study} --config {params.config:q} > {log:q} 2>&1"
