# One image for every worker and the night: docker build -t leap . && docker run --rm leap --help
# It runs with a read-only root file system: what is written goes to /var/lib/leap and /tmp.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock .
# All wheels are fetched by their hashes; only what the extras need is then installed from them.
RUN pip download -q --no-deps --require-hashes -r requirements.lock -d /wheels
COPY pyproject.toml README.md LICENSE ./
COPY leap leap
COPY schemas schemas
COPY predictor predictor
COPY streams streams
COPY retrainer retrainer
RUN python -m venv --without-pip /leap \
    && pip --python /leap/bin/python install -q --no-index --find-links /wheels '.[retrainer,s3,signing]'

FROM python:3.11-slim
RUN useradd --uid 1000 --home-dir /var/lib/leap --create-home leap
COPY --from=build /leap /leap
USER 1000:1000
WORKDIR /var/lib/leap
ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 LEAP_METRICS_PORT=8000
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/leap/bin/python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/livez')"]
ENTRYPOINT ["/leap/bin/leap"]
CMD ["--help"]
