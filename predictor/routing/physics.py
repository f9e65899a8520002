"""What a prediction means physically: the work of a sample, the rate that is reached, and the peak it is a share of."""

from collections.abc import Iterator
from dataclasses import dataclass

from leap.predictor.features.architecture import FORWARD_PASSES_PER_STEP
from leap.schemas.events import JobSubmitted, PreferenceList, RankedCandidate
from leap.schemas.hardware import Catalog, Hardware

#: Part of a precision's name to the rates of the catalog that it may run at; of those that are known the first.
#: The catalog has no rate below 8 bits.
_RATES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("fp8", "float8", "int8", "fp4", "float4", "int4"), ("fp8", "bf16", "fp16", "fp32")),
    (("bf16", "bfloat16"), ("bf16", "fp16", "fp32")),
    (("fp16", "float16", "half", "amp", "mixed"), ("fp16", "bf16", "fp32")),
    (("tf32",), ("tf32", "fp32")),
    (("fp32", "float32", "single"), ("fp32",)),
)


@dataclass(frozen=True)
class Rate:
    """Rate of one accelerator of a candidate.

    Attributes
    ----------
    achieved, peak
        FLOP/s, of training at the predicted throughput, and of the catalog.
    precision
        That the peak is of.
    attempts
        Finished attempts of the family on that hardware type: 0 where the rate is predicted without any.
    """

    achieved: float
    peak: float
    precision: str
    attempts: int

    @property
    def utilisation(self) -> float:
        """Share of the peak."""
        return self.achieved / self.peak

    @property
    def source(self) -> str:
        """Where it comes from, in words."""
        return f"measured on {self.attempts:,} attempts of its family" if self.attempts else "predicted: none ran there"


def rate_of(
    candidate: RankedCandidate, answer: PreferenceList, submission: JobSubmitted, catalog: Catalog
) -> Rate | None:
    """Rate of a candidate; None where its peak or the work of a sample is not known."""
    entry = catalog.specification(candidate.hardware_type)
    if not answer.flops or entry is None or (peak := peak_of(entry, submission.config.precision)) is None:
        return None
    achieved = FORWARD_PASSES_PER_STEP * answer.flops * candidate.throughput / submission.config.accelerators
    counts = answer.served_history.get("family_hardware_count", ())
    known = dict(zip(answer.candidates, counts, strict=False)).get(candidate.hardware_type)
    return Rate(achieved, peak[0], peak[1], int(known or 0))


def rates_of(answer: PreferenceList, submission: JobSubmitted, catalog: Catalog) -> dict[str, Rate]:
    """Hardware type to its rate, of those ranked ones whose rate is known."""
    rates = {each.hardware_type: rate_of(each, answer, submission, catalog) for each in answer.ranked}
    return {name: rate for name, rate in rates.items() if rate}


def peak_of(entry: Hardware, precision: str | None) -> tuple[float, str] | None:
    """FLOP/s of the catalog at a precision, and the precision that it is of; without one the best of 16 and 32 bits.

    >>> entry = Hardware(name="X", vendor="V", fp32_tflops=10.0, fp16_tflops=80.0)
    >>> peak_of(entry, "bf16-mixed"), peak_of(entry, "fp32"), peak_of(entry, None)
    ((80000000000000.0, 'fp16'), (10000000000000.0, 'fp32'), (80000000000000.0, 'fp16'))
    """
    name = (precision or "").lower()
    rates = next((rates for parts, rates in _RATES if any(part in name for part in parts)), None)
    known = {rate: tflops for rate in rates or ("bf16", "fp16", "fp32") if (tflops := _tflops(entry, rate))}
    if not known:
        return None
    rate = next(iter(known)) if rates else max(known, key=lambda rate: known[rate])
    return known[rate] * 1e12, rate


def work_in_words(answer: PreferenceList, submission: JobSubmitted) -> str:
    """The work of a sample and who stated it, or what stating it takes."""
    if not answer.flops:
        return f"Work unknown: no FLOP of model type {submission.model_type}; `model` of a submission states them."
    stated = f"kept of model type {submission.model_type}" if submission.model is None else "stated with the job"
    return (
        f"Work: {answer.flops:.4g} FLOP per sample, forward ({stated}); training takes "
        f"{FORWARD_PASSES_PER_STEP:g} times as many."
    )


def rate_in_words(rate: Rate) -> Iterator[str]:
    """One line on a rate, and one where it cannot be."""
    yield (
        f"{rate.achieved / 1e12:,.4g} of {rate.peak / 1e12:,.4g} TFLOP/s per accelerator ({rate.precision}): "
        f"utilisation {rate.utilisation:.1%}, {rate.source}"
    )
    if rate.utilisation > 1:
        yield "more than the peak: check FLOP per sample, precision and the catalog"


def _tflops(entry: Hardware, rate: str) -> float | None:
    tflops: float | None = getattr(entry, f"{rate}_tflops")
    return tflops
