from typing import Any, Self

functional: Any

class Module:
    def eval(self) -> Self: ...
