"""Render and compile one module for each entry, precision and layout, on the CPU cores alone."""


rule compile:
    input:
        templates=plan.templates,
    output:
        "modules/{target}/{study}/{entry}-{precision}/{layout}.json",
    log:
        f"{plan.logs}/compile/{{target}}/{{study}}/{{entry}}-{{precision}}/{{layout}}.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        code=plan.code("entries", "formats", "codegen"),
        kernels=lambda wildcards: plan.config.kernels,
    message:
        "Compiling {wildcards.layout} for {wildcards.entry} entries, {wildcards.precision}, {wildcards.target}"
    shell:
        "repro compile {wildcards.study} {wildcards.entry} {wildcards.precision} {wildcards.layout}"
        " --target {wildcards.target} --kernels {params.kernels:q} --output {output:q} --record-errors > {log:q} 2>&1"


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
        "repro compile common --target {wildcards.target} --kernels {params.kernels:q} --output {output:q}"
        " > {log:q} 2>&1"
