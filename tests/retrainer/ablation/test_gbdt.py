"""The rivals learn what trees can learn, choose among their settings, and write what serving would load."""

from pathlib import Path

import numpy as np
import pytest

from leap.retrainer.ablation.baselines.gbdt import CatBoost, LightGBM, Rival, XGBoost


@pytest.mark.parametrize(
    ("rival", "grid"),
    [(LightGBM, ((2, 1.0), (7, 1.0))), (XGBoost, ((2, 1.0), (7, 1.0))), (CatBoost, ((1, 1.0), (3, 1.0)))],
)
def test_learns_a_step_with_missing_values(
    rival: type[Rival], grid: tuple[tuple[int, float], ...], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(2000, 3)).astype(np.float32)
    x[::7, 0] = np.nan
    # The second column turns the step around, which trees of one split cannot learn.
    step = np.where(np.isnan(x[:, 0]), 0.0, np.where((x[:, 0] > 0) == (x[:, 1] > 0), 1.0, -1.0))
    model = rival(seed=1, grid=grid).fit(x, step + random.normal(scale=0.01, size=2000))
    assert model.setting_ == grid[1]
    asked = np.array([[-1, 1, 0], [1, 1, 0], [-1, -1, 0], [np.nan, 1, 0]], dtype=np.float32)
    assert model.predict(asked) == pytest.approx([-1, 1, 1, 0], abs=0.05)
    model.save(tmp_path)
    assert [path.stat().st_size > 0 for path in tmp_path.iterdir()] == [True]
