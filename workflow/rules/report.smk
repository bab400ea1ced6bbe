"""The report, and the check that says whether anything is missing from it."""


rule report:
    input:
        lambda wildcards: inputs(
            ["report"], [*batches.all_raw, *plan.artifact_files], batches.all_ahead
        ),
    output:
        kept(
            [
                report(
                    str(plan.folder.page("report.html")),
                    caption="../report/report.rst",
                    category="Report",
                    labels={"name": "All tables and figures"},
                ),
                str(plan.folder.page("reproduction.md")),
            ]
        ),
    log:
        f"{plan.logs}/report.log",
    conda:
        ENVIRONMENT
    resources:
        **asked(requests.concluding),
    params:
        repro=REPRO,
        config=plan.config_file,
    message:
        "Writing the report"
    shell:
        "{params.repro:q} report --receipt --config {params.config:q} > {log:q} 2>&1"


rule check:
    input:
        lambda wildcards, report=rules.report.output: inputs(
            ["check"], ahead_of_check(report)
        ),
    output:
        str(plan.folder.complete),
    log:
        f"{plan.logs}/check.log",
    # a second check would find the same
    retries: 0
    conda:
        ENVIRONMENT
    resources:
        **asked(requests.concluding),
    params:
        repro=REPRO,
        config=plan.config_file,
    message:
        "Checking that nothing is missing"
    shell:
        "{params.repro:q} check --each --config {params.config:q} --output {output:q} > {log:q} 2>&1"
