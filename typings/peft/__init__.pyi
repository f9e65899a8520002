"""What of peft is used, which is not installed where types are checked."""

from typing import Any

class LoraConfig:
    def __init__(self, *, r: int, lora_alpha: int, target_modules: str) -> None: ...

def get_peft_model(model: Any, peft_config: LoraConfig) -> Any: ...
