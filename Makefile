# Everything runs in .venv, made from the lock file. Needs Python 3.11 and make, nothing else.
PYTHON ?= python3.11
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

demo: .venv/ready
	.venv/bin/leap demo

test: .venv/ready
	.venv/bin/pytest -q -n auto

# On Apache Kafka and Redis; needs Java 17, Maven, redis-server, prometheus and gcc.
test-real: .venv/ready
	LEAP_TEST_BACKEND=real .venv/bin/pytest -q -n auto

check: .venv/ready
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/leap schemas check
	.venv/bin/python -m tests.audit
	.venv/bin/docker-compose --profile everything config --quiet
	for overlay in deploy/kubernetes/overlays/*; do \
	    .venv/bin/kubectl kustomize $$overlay >.venv/rendered.yaml && \
	    .venv/bin/kubernetes-validate --quiet --strict .venv/rendered.yaml || exit 1; \
	done

# As in check, but failing where nobody tells of vulnerabilities too.
audit: .venv/ready
	.venv/bin/python -m tests.audit --strict

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	.venv/bin/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv .leap build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: demo test test-real check audit clean
