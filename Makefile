# Everything runs in .venv, made from the locks. Needs Python 3.11 and make, nothing else.
PYTHON ?= python3.11
PIP = .venv/bin/pip install -q --disable-pip-version-check --no-deps
COMPILE = .leap/uv/bin/uv pip compile -q pyproject.toml --python-version 3.11 --all-extras --generate-hashes \
    --no-header --no-annotate
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

demo: .venv/user
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

# The documentation with its notebook run, under build/site.
site: .venv/ready
	PATH="$$PWD/.venv/bin:$$PATH" NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build -q -f deploy/site/mkdocs.yml

# As in check, but failing where nobody tells of vulnerabilities too.
audit: .venv/ready
	.venv/bin/python -m tests.audit --strict

# What a user runs, and then what a developer needs besides; versions are the same.
.venv/user: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-build-isolation -e .
	touch $@

.venv/ready: requirements-dev.lock .venv/user
	$(PIP) --require-hashes -r requirements-dev.lock
	touch $@

# Keeps the versions that are locked, if pyproject.toml allows them; LOCK=--upgrade takes the newest, and
# LOCK='--upgrade-package NAME' those of one package.
locks:
	$(PYTHON) -m venv .leap/uv
	.leap/uv/bin/pip install -q --disable-pip-version-check uv==0.13.9
	$(COMPILE) --group dev -o requirements-dev.lock $(LOCK)
	$(COMPILE) --group build -c requirements-dev.lock -o requirements.lock $(LOCK)

clean:
	rm -rf .venv .leap build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: demo test test-real check site audit locks clean
