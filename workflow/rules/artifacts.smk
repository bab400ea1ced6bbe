"""Tables and figures, from the raw results and the published numbers alone.

One job makes all tables of a study and one all its figures: reading a campaign takes longer than any table of it.
"""

for study in plan.studies.values():

    if study.tables:

        rule:
            name:
                f"tables_{study.name}"
            input:
                raw=plan.raw(study.name),
                published=plan.published(study.name),
            output:
                expand(
                    f"{plan.results}/tables/{study.name}/{{table}}.{{suffix}}",
                    table=study.tables,
                    suffix=("csv", "md", "tex"),
                ),
            log:
                f"{plan.logs}/tables/{study.name}.log",
            conda:
                "../../environment.yml"
            params:
                code=plan.artifacts_code(study.name, "tables"),
                config=plan.config_file,
                problems=study.problems,
                tie=study.settings.timing.tie,
                names=study.tables,
                study=study.name,
            message:
                "Making the tables of {params.study}"
            shell:
                "repro table {params.names} --study {params.study} --config {params.config:q} > {log:q} 2>&1"

    if study.figures:

        rule:
            name:
                f"figures_{study.name}"
            input:
                raw=plan.raw(study.name),
                published=plan.published(study.name),
            output:
                expand(
                    f"{plan.figures}/{study.name}/{{figure}}.{{suffix}}",
                    figure=study.figures,
                    suffix=("pdf", "svg", "png"),
                ),
            log:
                f"{plan.logs}/figures/{study.name}.log",
            conda:
                "../../environment.yml"
            params:
                code=plan.artifacts_code(study.name, "figures"),
                config=plan.config_file,
                problems=study.problems,
                tie=study.settings.timing.tie,
                names=study.figures,
                study=study.name,
            message:
                "Making the figures of {params.study}"
            shell:
                "repro figure {params.names} --study {params.study} --config {params.config:q} > {log:q} 2>&1"
