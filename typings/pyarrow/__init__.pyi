from . import parquet as parquet
