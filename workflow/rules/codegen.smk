"""Render and compile modules, on the CPU alone; a job makes a group of modules, whose keys differ in the last part."""

for group in plan.module_groups:

    rule:
        name:
            group.rule
        input:
            lambda wildcards, group=group: inputs(
                [f"compile {group.study} {key}" for key in group.keys], []
            ),
        output:
            plan.manifests_of(group.study, group.keys),
        log:
            f"{plan.logs}/compile/{plan.target_name}/{group.study}/{group.name}.log",
        priority: 1
        conda:
            ENVIRONMENT
        threads: 4 if plan.on_gpu else 1
        resources:
            **asked(partial(requests.compiling, group)),
        params:
            repro=REPRO,
            kernels=plan.config.kernels,
            study=group.study,
            group=group.name,
            modules=group.keys,
            target=plan.target_name,
        message:
            "Compiling {params.group} of {params.study} for {params.target}"
        shell:
            "{params.repro:q} compile {params.study} {params.modules} --jobs {threads} --target {params.target}"
            " --kernels {params.kernels:q} --receipt --record-errors > {log:q} 2>&1"


rule compile_common:
    input:
        lambda wildcards: inputs(["compile common"], []),
    output:
        plan.common_manifest,
    log:
        f"{plan.logs}/compile/{plan.target_name}/common.log",
    priority: 1
    conda:
        ENVIRONMENT
    resources:
        **asked(requests.compiling),
    params:
        repro=REPRO,
        kernels=plan.config.kernels,
        target=plan.target_name,
    message:
        "Compiling the kernels that all studies share, for {params.target}"
    shell:
        "{params.repro:q} compile common --target {params.target} --kernels {params.kernels:q} --receipt > {log:q} 2>&1"
