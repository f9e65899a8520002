"""Two upper bounds on the accuracy of any model on the simulated fleet.

*Label noise*: the noise-free throughput of the attempt itself.

*Reachable*: what can be known at launch from earlier days, given the exact roofline and, for everything with a finished
attempt, the latent efficiencies as of yesterday: of the model type and its hardware pairs, of the family, and of the
family on this hardware type. Effects that have not been observed are set to their prior median; the effects of the day
itself (a jump, the day effect, run noise) are unknown. A model that learns from noisy measurements stays below it.
"""

import numpy as np

from leap.streams.simulator.day_batch import DayBatch
from leap.streams.simulator.fleet import Fleet
from leap.streams.simulator.latent_effects import family_prior
from leap.streams.simulator.model_types import Floats, Ints


class Known:
    """What has been observed on earlier days, for the reachable bound."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.prior = family_prior()
        self.types = np.zeros(len(fleet.types), dtype=bool)
        self.families = np.zeros(len(fleet.families), dtype=bool)
        self.pairs = np.zeros((len(fleet.families), len(fleet.hardware)), dtype=bool)

    def reachable(self, batch: DayBatch, rows: Ints) -> Floats:
        """Best prediction at launch (samples/s) of attempts `rows` on the hardware that they ran on."""
        hidden, family, hardware = self.fleet.hidden, batch.family[rows], batch.hardware[rows]
        kind = batch.model_type[rows]
        yesterday = hidden.drift[max(batch.day - 1, 0), family]
        of_type = np.where(self.types[kind], hidden.type_[kind] + hidden.type_hardware[kind, hardware], 0.0)
        of_family = np.where(self.families[family], hidden.family[family] + yesterday, self.prior)
        of_pair = np.where(self.pairs[family, hardware], hidden.family_hardware[family, hardware], 0.0)
        bare = self.fleet.expected(batch, rows, hardware, fixed=False)
        return np.asarray(bare * np.exp(of_type + of_family + of_pair))

    def learn(self, batch: DayBatch, rows: Ints) -> None:
        """Add the attempts of a finished day."""
        family = batch.family[rows]
        self.types[batch.model_type[rows]] = True
        self.families[family] = True
        self.pairs[family, batch.hardware[rows]] = True
