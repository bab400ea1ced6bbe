"""The report, and the check that says whether anything is missing from it."""


rule report:
    input:
        raw=[plan.raw(study) for study in plan.studies],
        artifacts=plan.artifact_files,
    output:
        f"{plan.results}/report.html",
    log:
        f"{plan.logs}/report.log",
    conda:
        "../../environment.yml"
    params:
        code=plan.reporting_code,
        config=plan.config_file,
        studies={study.name: study.problems for study in plan.studies.values()},
    message:
        "Writing the report"
    shell:
        "repro report --config {params.config:q} > {log:q} 2>&1"


# Its inputs are everything that can be recorded as missing: what `repro check` deletes is tried again by the next run,
# even where the tables made without it are still there.
rule check:
    input:
        rules.report.output,
        matrices=plan.matrices,
        modules=plan.all_manifests,
    output:
        touch(f"{plan.results}/complete"),
    log:
        f"{plan.logs}/check.log",
    conda:
        "../../environment.yml"
    params:
        config=plan.config_file,
    message:
        "Checking that nothing is missing"
    shell:
        "repro check --config {params.config:q} > {log:q} 2>&1"
