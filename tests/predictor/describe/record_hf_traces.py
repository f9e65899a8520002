"""Record what PyTorch says of models that the transformers library makes, for `test_hf_traces.py`.

``pip install torch transformers msgspec``, in an environment of its own, then
``python -m tests.predictor.describe.record_hf_traces tests/predictor/describe/hf_traces.jsonl.xz``. To be run again
whenever `hf_model.py`, `hf_inputs.py` or `torch_module.py` of `predictor/describe` changes.
"""

import json
import lzma
import sys
import tempfile
from pathlib import Path

import msgspec
import torch
import transformers

from leap.predictor.describe.hf_model import trace
from tests.predictor.describe.hf_configurations import CONFIGURATIONS


def main() -> None:
    """One line a configuration."""
    versions = {"torch": str(torch.__version__), "transformers": transformers.__version__}
    with tempfile.TemporaryDirectory() as folder, lzma.open(sys.argv[1], "wb", preset=9) as lines:
        path = Path(folder) / "config.json"
        for name, configuration in CONFIGURATIONS.items():
            path.write_text(json.dumps(configuration.fields))
            line = {"name": name, **versions, "trace": trace(path, configuration.sizes)}
            lines.write(msgspec.json.encode(line) + b"\n")


if __name__ == "__main__":
    main()
