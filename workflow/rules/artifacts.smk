"""Tables and figures, from the raw results and the published numbers alone.

One job makes all tables of a study and one all its figures: reading a campaign takes longer than any table of it.
"""

for study in plan.studies.values():

    if study.tables:

        rule:
            name:
                f"tables_{study.name}"
            input:
                lambda wildcards, study=study.name: inputs(
                    [f"tables {study}"], batches.raw(study), batches.ahead(study)
                ),
            output:
                artifacts(study.name, "tables"),
            log:
                f"{plan.logs}/tables/{study.name}.log",
            conda:
                ENVIRONMENT
            resources:
                **asked(partial(requests.presenting, study.name)),
            params:
                repro=REPRO,
                config=plan.config_file,
                study=study.name,
            message:
                "Making the tables of {params.study}"
            shell:
                "{params.repro:q} table --all --receipt --study {params.study} --config {params.config:q}"
                " > {log:q} 2>&1"

    if study.figures:

        rule:
            name:
                f"figures_{study.name}"
            input:
                lambda wildcards, study=study.name: inputs(
                    [f"figures {study}"], batches.raw(study), batches.ahead(study)
                ),
            output:
                artifacts(study.name, "figures"),
            log:
                f"{plan.logs}/figures/{study.name}.log",
            conda:
                ENVIRONMENT
            resources:
                **asked(partial(requests.presenting, study.name)),
            params:
                repro=REPRO,
                config=plan.config_file,
                study=study.name,
            message:
                "Making the figures of {params.study}"
            shell:
                "{params.repro:q} figure --all --receipt --study {params.study} --config {params.config:q}"
                " > {log:q} 2>&1"
