"""The rivals learn what trees can learn, and use nothing but the earlier rows to fit."""

import numpy as np
import pytest

from retrainer import rivals


@pytest.mark.parametrize("name", rivals.RIVALS)
def test_learns_a_step_with_missing_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "LEAVES", (3, 7))
    random = np.random.default_rng(0)
    x = random.normal(size=(2000, 3)).astype(np.float32)
    x[::7, 0] = np.nan
    y = np.where(np.isnan(x[:, 0]), 3.0, np.where(x[:, 0] > 0, 2.0, 1.0)) + random.normal(scale=0.01, size=2000)
    model = rivals.RIVALS[name](1).fit(x, y)
    assert model.predict(np.array([[-1, 0, 0], [1, 0, 0], [np.nan, 0, 0]], dtype=np.float32)) == pytest.approx(
        [1, 2, 3], abs=0.05
    )
