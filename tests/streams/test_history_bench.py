from streams.history_bench import bench
from streams.settings import Settings


def test_it_measures(settings: Settings) -> None:
    figures = bench(settings, completions=2000, rounds=1)
    assert figures.completions == 2000
    each = (figures.completions_per_s, figures.script_per_s, figures.worker_per_s, figures.call_per_key_per_s)
    assert min(each) > 0
    assert figures.fraction_of_script == figures.completions_per_s / figures.script_per_s
    assert figures.fraction_of_call_per_key == figures.completions_per_s / figures.call_per_key_per_s
