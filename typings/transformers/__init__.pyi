"""What of transformers is used, which is not installed where types are checked."""

from pathlib import Path
from typing import Any

__version__: str
CONFIG_MAPPING: Any

class AutoModel:
    _model_mapping: Any

    @staticmethod
    def from_pretrained(path: Path, local_files_only: bool) -> Any: ...

class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(path: Path, local_files_only: bool) -> Any: ...

class AutoTokenizer:
    @staticmethod
    def from_pretrained(path: Path, local_files_only: bool, padding_side: str = ...) -> Any: ...
