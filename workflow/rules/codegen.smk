"""Render and compile modules, on the CPU alone; a job makes a group: those whose keys differ in the last part alone."""

for group in plan.module_groups:

    rule:
        name:
            group.rule
        input:
            templates=plan.templates(group.study, "sparse"),
        output:
            plan.manifests_of(group.study, group.keys),
        log:
            f"{plan.logs}/compile/{plan.target_name}/{group.study}/{group.name}.log",
        priority: 1
        conda:
            "../../environment.yml"
        threads: 4 if plan.on_gpu else 1
        params:
            code=plan.compiling_code(group.study),
            kernels=lambda wildcards: plan.config.kernels,
            study=group.study,
            group=group.name,
            modules=group.keys,
            target=plan.target_name,
        message:
            "Compiling {params.group} of {params.study} for {params.target}"
        shell:
            "repro compile {params.study} {params.modules} --jobs {threads} --target {params.target}"
            " --kernels {params.kernels:q} --record-errors > {log:q} 2>&1"


rule compile_common:
    input:
        templates=plan.templates("common"),
    output:
        plan.common_manifest,
    log:
        f"{plan.logs}/compile/{plan.target_name}/common.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        code=plan.common_code,
        kernels=lambda wildcards: plan.config.kernels,
        target=plan.target_name,
    message:
        "Compiling the kernels that all studies share, for {params.target}"
    shell:
        "repro compile common --target {params.target} --kernels {params.kernels:q} > {log:q} 2>&1"
