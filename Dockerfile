# evenli on the command line. Build: docker build -t evenli .   Run: docker run --rm -v "$PWD:/work" evenli audit --limit 600
# Checkpoints of transformers: docker build --build-arg EXTRAS=report,hf -t evenli .
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir hatchling==1.33.0 && python -m hatchling build -t wheel -d /dist

FROM python:3.12-slim
ARG EXTRAS=report
COPY --from=build /dist /dist
# The CPU build of torch, where an extra asks for it: the default one brings gigabytes of CUDA.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
        "$(find /dist -name '*.whl')[${EXTRAS}]" \
    && rm -r /dist \
    && useradd --create-home --uid 1000 evenli
USER 1000
WORKDIR /work
ENTRYPOINT ["evenli"]
CMD ["--help"]
