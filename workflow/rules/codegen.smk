"""Render and compile one module for each space, entry, precision and layout, on the CPU alone; a job makes all layouts."""

for study, space, entry, layouts in plan.module_sets:

    rule:
        name:
            f"compile_{study}_{space}_{entry}"
        input:
            templates=plan.templates,
        output:
            expand(
                f"modules/{{{{target}}}}/{study}/{space}/{entry}-{{{{precision}}}}/{{layout}}.json",
                layout=layouts,
            ),
        log:
            f"{plan.logs}/compile/{{target}}/{study}/{space}/{entry}-{{precision}}.log",
        priority: 1
        conda:
            "../../environment.yml"
        threads: 4 if plan.on_gpu else 1
        params:
            code=plan.code("entries", "formats", "codegen"),
            kernels=lambda wildcards: plan.config.kernels,
            module=f"{study} {entry}",
            layouts=layouts,
            space=space,
        message:
            "Compiling modules: {params.module}, {wildcards.precision} precision, space {params.space}, for {wildcards.target}"
        shell:
            "repro compile {params.module} {wildcards.precision} {params.layouts} --space {params.space}"
            " --jobs {threads} --target {wildcards.target} --kernels {params.kernels:q} --record-errors > {log:q} 2>&1"


rule compile_common:
    input:
        templates=plan.templates,
    output:
        "modules/{target}/common.json",
    log:
        f"{plan.logs}/compile/{{target}}/common.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        code=plan.code("entries", "formats", "codegen"),
        kernels=lambda wildcards: plan.config.kernels,
    message:
        "Compiling the kernels that all studies share, {wildcards.target}"
    shell:
        "repro compile common --target {wildcards.target} --kernels {params.kernels:q} > {log:q} 2>&1"


rule compile_solver:
    input:
        templates=plan.templates,
    output:
        "modules/{target}/solvers/{solver}-{precision}.json",
    log:
        f"{plan.logs}/compile/{{target}}/solvers/{{solver}}-{{precision}}.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        code=plan.code("entries", "formats", "codegen"),
        kernels=lambda wildcards: plan.config.kernels,
    message:
        "Compiling the vector operations of {wildcards.solver}, {wildcards.precision} precision, {wildcards.target}"
    shell:
        "repro compile solvers {wildcards.solver} {wildcards.precision} --target {wildcards.target}"
        " --kernels {params.kernels:q} > {log:q} 2>&1"
