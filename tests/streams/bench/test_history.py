from leap.streams.bench.history import bench
from leap.streams.runtime.settings import Settings


def test_history_bench_reports_positive_rates(settings: Settings) -> None:
    figures = bench(settings, completions=2000, rounds=1)
    assert figures.completions == 2000
    alone = (figures.script_per_s, figures.decoded_per_s, figures.call_per_key_per_s)
    shares = (figures.fraction_of_script, figures.fraction_of_decoded, figures.fraction_of_call_per_key)
    assert min(figures.completions_per_s, *alone) > 0
    assert shares == tuple(figures.completions_per_s / rate for rate in alone)
