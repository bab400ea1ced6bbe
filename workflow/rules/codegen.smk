"""Render and compile one module for each entry, precision and layout, on the CPU cores alone; one job makes all layouts."""


rule compile:
    input:
        templates=plan.templates,
    output:
        [
            f"modules/{{target}}/{{study}}/{{entry}}-{{precision}}/{layout}.json"
            for layout in plan.layouts
        ],
    log:
        f"{plan.logs}/compile/{{target}}/{{study}}/{{entry}}-{{precision}}.log",
    priority: 1
    conda:
        "../../environment.yml"
    threads: 4 if plan.on_gpu else 1
    params:
        code=plan.code("entries", "formats", "codegen"),
        kernels=lambda wildcards: plan.config.kernels,
        layouts=plan.layouts,
    message:
        "Compiling {wildcards.entry} modules, {wildcards.precision} precision, for {wildcards.target}"
    shell:
        "repro compile {wildcards.study} {wildcards.entry} {wildcards.precision} {params.layouts} --jobs {threads}"
        " --target {wildcards.target} --kernels {params.kernels:q} --record-errors > {log:q} 2>&1"


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
