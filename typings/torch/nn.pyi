from typing import Self

class Module:
    def eval(self) -> Self: ...
