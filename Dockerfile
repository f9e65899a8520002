# One image for every worker and the nightly retrain: docker build -t leap . && docker run leap --help
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock .
# All wheels are fetched by their hashes; only what the extras need is then installed from them.
RUN pip download -q --no-deps --require-hashes -r requirements.lock -d /wheels
COPY pyproject.toml README.md leap.py ./
COPY schemas schemas
COPY predictor predictor
COPY streams streams
COPY retrainer retrainer
RUN python -m venv /leap && /leap/bin/pip install -q --no-index --find-links /wheels '.[retrainer]'

FROM python:3.11-slim
COPY --from=build /leap /leap
RUN useradd --uid 1000 leap && mkdir /var/lib/leap && chown leap /var/lib/leap
USER leap
WORKDIR /var/lib/leap
ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
ENTRYPOINT ["/leap/bin/leap"]
CMD ["--help"]
