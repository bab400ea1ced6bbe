"""The report, and the check that says whether anything is missing from it."""


rule report:
    input:
        inputs(
            ["report"],
            [
                *(path for study in plan.studies for path in plan.raw(study)),
                *plan.artifact_files,
            ],
        ),
    output:
        kept([f"{plan.results}/report.html"]),
    log:
        f"{plan.logs}/report.log",
    conda:
        "../../environment.yml"
    params:
        repro=REPRO,
        config=plan.config_file,
    message:
        "Writing the report"
    shell:
        "{params.repro:q} report --receipt --config {params.config:q} > {log:q} 2>&1"


# Its inputs are all that can be recorded as missing, so that a run makes it even where the tables made without it are
# still there.
rule check:
    input:
        inputs(["check"], [*rules.report.output, *plan.matrices, *plan.all_manifests]),
    output:
        f"{plan.results}/complete",
    log:
        f"{plan.logs}/check.log",
    conda:
        "../../environment.yml"
    params:
        repro=REPRO,
        config=plan.config_file,
    message:
        "Checking that nothing is missing"
    shell:
        "{params.repro:q} check --config {params.config:q} --output {output:q} > {log:q} 2>&1"
