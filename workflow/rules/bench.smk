"""Measure one problem of a study in one precision, by the study's own steps, each of which writes a file."""

for study in plan.studies.values():

    rule:
        name:
            f"measure_{study.name}"
        input:
            lambda wildcards, study=study.name: inputs(
                [f"measure {study} {wildcards.problem} {wildcards.precision}"],
                plan.read_by_case(study, wildcards.problem, wildcards.precision),
            ),
        output:
            multiext(
                f"{plan.folder.case(study.name, '{problem}', '{precision}')}/",
                *plan.case_files(study.name),
            ),
        log:
            f"{plan.logs}/measure/{study.name}/{{problem}}/{{precision}}.log",
        # tables and figures wait, so that a device is never idle
        priority: 1
        conda:
            ENVIRONMENT
        threads: lambda wildcards, study=study.name: threads_to_measure(study)
        resources:
            **asked_to_measure(
                lambda problem, precision, study=study.name: requests.measuring(
                    [(study, problem, precision)]
                ),
                study.name,
            ),
        params:
            repro=REPRO,
            config=plan.config_file,
            study=study.name,
            turns=lambda wildcards, study=study.name: processes_per_device(
                plan, study, gpu_limit()
            ),
        message:
            "Measuring {wildcards.problem}, {wildcards.precision}, of {params.study}"
        shell:
            "{params.repro:q} measure {params.study} {wildcards.problem:q} {wildcards.precision}"
            " --config {params.config:q} --turns {params.turns} --jobs {threads} --receipt --record-failures > {log:q} 2>&1"

    if batches.measuring:

        rule:
            name:
                f"measure_batch_{study.name}"
            input:
                lambda wildcards, study=study.name: inputs(
                    (
                        batch := batches[
                            f"{study}/{wildcards.precision}/{wildcards.batch}"
                        ]
                    ).steps,
                    batches.read_by(batch),
                ),
            output:
                str(plan.folder.batch(f"{study.name}/{{precision}}/{{batch}}")),
            log:
                f"{plan.logs}/batches/{study.name}/{{precision}}/{{batch}}.log",
            priority: 1
            conda:
                ENVIRONMENT
            threads: lambda wildcards, study=study.name: threads_to_measure(study)
            resources:
                **asked_to_measure(
                    lambda precision, batch, study=study.name: requests.measuring(
                        batches[f"{study}/{precision}/{batch}"].cases
                    ),
                    study.name,
                ),
            params:
                repro=REPRO,
                config=plan.config_file,
                study=study.name,
                problems=lambda wildcards, study=study.name: batches[
                    f"{study}/{wildcards.precision}/{wildcards.batch}"
                ].problems,
            message:
                "Measuring batch {wildcards.batch}, {wildcards.precision}, of {params.study}"
            shell:
                "{params.repro:q} batch {params.study}/{wildcards.precision} {params.problems:q}"
                " --config {params.config:q} --jobs {threads} --output {output:q} > {log:q} 2>&1"
