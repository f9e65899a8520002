from typing import BinaryIO

import pandas as pd

class Schema:
    names: list[str]

class Table:
    def to_pandas(self) -> pd.DataFrame: ...

class ParquetFile:
    schema_arrow: Schema
    def __init__(self, source: BinaryIO) -> None: ...
    def read(self, columns: list[str] | None = ...) -> Table: ...
