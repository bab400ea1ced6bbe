# The package in the environment that locks/ pins. BASE is the CPU's, or an image with the CUDA toolkit: docs/installing.md.
ARG BASE=ubuntu:24.04
FROM ${BASE}

LABEL org.opencontainers.image.title="sparse-repro" \
      org.opencontainers.image.version="0.3.0" \
      org.opencontainers.image.licenses="MIT"

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/sparse-repro
COPY LICENSE README.md Snakefile environment.yml environment-cuda.yml pyproject.toml ./
COPY locks locks
COPY config config
COPY include include
COPY kernels kernels
COPY profiles profiles
COPY workflow workflow
COPY src src

ENV PATH=/opt/venv/bin:$PATH PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/venv \
    && pip install --no-deps --require-hashes -r locks/run.txt -r locks/campaign.txt -r locks/cpu.txt \
    && if command -v nvcc; then pip install --no-deps --require-hashes -r locks/cuda.txt -r locks/pycuda.txt; fi \
    && pip install --no-deps --no-build-isolation .

# a user without privileges, who may write to the folder where no other one is mounted; any other one may run it as well
RUN useradd --no-create-home --uid 10001 repro && install --directory --owner repro /work
ENV HOME=/tmp
WORKDIR /work
USER repro
CMD ["repro", "doctor"]
