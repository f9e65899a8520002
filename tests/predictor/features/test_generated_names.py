"""Names that a tool makes anew for every run, and names of things that look as if it had."""

import csv
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from leap.predictor.features.job_family import family

SAME_FAMILY = [
    ("train-bert-x7k2p", "train-bert-9zq4d", "train-bert"),  # Kubernetes generateName
    ("rayjob-sample-4hg6t", "rayjob-sample-b2v8n", "rayjob-sample"),
    ("raysubmit_Kj2hs8dQmz71XcVb", "raysubmit_abcdefGHIJKLmnop", "raysubmit"),
    ("random-search-a8f3k2p9", "random-search-z1m4q7t2", "random-search"),  # Katib trial
    ("my-wf-7bdq2-train-1029384756", "my-wf-p9x4c-train-3847561029", "my-wf-train"),  # Argo node
    ("my-wf-7bdq2-1029384756", "my-wf-p9x4c-384756102", "my-wf"),
    ("vcjob-bert-5k2lq", "vcjob-bert-8w3zn", "vcjob-bert"),  # Volcano
    ("bert-x7k2p-worker-0", "bert-b2v8n-worker-3", "bert"),  # replicas of a PyTorchJob
    ("bert_48293_7", "bert_48310_2", "bert"),  # Slurm array
    ("bert-48293_[1-10%4]", "bert-4831011_[3,5]", "bert"),
    ("bert_4829301_7", "bert_4831012_11", "bert"),
    ("bert-3k9x2m7q", "bert_p4w8z1c6", "bert"),  # run id of a tracker
    ("llama-ft-20260901-2c0146", "llama-ft-20260914-9e71ab", "llama-ft"),  # short hash after a date
    ("llama-ft-7bdf31", "llama-ft-9e7a1b", "llama-ft"),
    ("bench/30-10-2026_10-00-00", "bench/02-11-2026_18-45-27", "bench"),  # day first with time
    ("bench_30.10.2026-10.00.00", "bench_30102026_100000", "bench"),
    ("gpt-7b-x7k2p-20260114", "gpt-7b-9zq4d-attempt-2", "gpt-7b"),  # before another identifier
]

# Models, data sets, precisions, layouts, hardware: each differs from its neighbours in the last word alone.
_THINGS = """
    mpt7b mpt30b t5xl t5xxl mt5xl mt5xxl vgg16 vgg19 ctx4k ctx8k 8x22b 8x7b w4a16 w8a8 w4a8 a8w8 w8a16g128 fp4w4a8
    w4a16kv8 e4m3fn e5m2 e4m3fnuz fp8e4m3 tp4pp8 tp8pp8 tp4pp2dp8 tp2cp4 r2plus1d i3d x3d c3d swin2xl gpt2xl gpt2l
    gpt2m 7bv2 7bv3 70bv2 3dcnn 2dcnn r50fpn r50c4 r101c4 ada002 dec256 dec2025 face2face 1e0001 1e4 bf16 fp16 fp8
    mxfp4 mxfp8 nvfp4 int4 int8 nf4 x86 h100 h200 b200 b300 gb200 gb300 nvl72 l40s a100 a100x8 8xh100 16xh100 8xb200
    4xl40s mi250x mi300x mi325x mi355x 8xmi300x 8xmi325x gh200 v5e256 v5p128 v6e8 v4x8 p4d24xl b2b2c l12h768 l24h1024
    12288 12288_96 24576_128 50257_1024 30522_768 k8s24 v1p5 v2p5 v2p5b 0p5b 1p5b 1p7b qwen2p5 qwen3 sm80 sm90a cu118
    cu121 py310 rev2b q4km q5ks q8kv t2v5b t2v14b i2v5b i2v14b t2v1p3b 2n8g 4n8g 4n8g2 7b4k 7b8k 7b128k 8b32k 8b128k
    13b4k 34b16k 7bft 7bft2 7bsft 7bdpo 8bsft 7btp8 8bpp4 7b2ep 7b3ep 8b2ep 7b8kbf16 8xb32 16xb64 r50x1 r50x3 r101x3
    r152x4 rn50x4 rn50x64 r18d8 r50d8 b16e5 b8e10 b64e10 b16s32 d64b32 d512b8 d256h8 1e5b32 3e4b16 2d1024 7b4096
    8b8192 m2m100 s2s s2s4b w2v wav2vec2 word2vec in1k in21k in22k in22ft1k in21ft1k 32x4d 32x8d 32x16d 64x4d 2x64d
    26w4s 101x3 tr13f tr11b xp3tr13f p31tr13f xp3mt lr1e4 lr3e5 lr2e5bs64 bs32lr1e4 bs256 bs64k wd1e2 ep10bs32 g8n2
    g1n8 v1beta1 v1alpha1 v2alpha1 o3d2 2d3d2 c10r2 gsm8k mmlu5s yolov8n yolov8s yolov5x yolo11x so400m 2x4x8 4x8x8
    z3o8 zero3 fsdp2 e3b16 h8l12 3x3s2 p16w7 patch16 window7 a2a a3b a22b 30ba3b 235ba22b 2b4it 9b4it e2b e4b 80gb
    sd15 sd3m sdxl10 xlsr53 rwkv6 rwkv7 lstm2 dlrm2 dlrmv3 unet3d hrnetw48 regnety16gf mbv3l mobilenetv3 effnetb0
    efficientnetb7 resnet50 resnet101 resnext50 wrn50 dpn68b dla60x2 dla102x2 cs3se nf5468m6 sr675v3 xe9680x8 c4a8
    llama2 llama3 llama31 gemma2 gemma3n phi3 phi4 olmo2 mamba2 deepseekv3 grok1 glm45 nanogpt cifar10 cifar100 c4en
    wmt14 wmt19 librispeech960 coco17 ade20k s3dis sst2 squad2 mc4 the20b 1k 4k 32k 80k 160k 1x 2x 20e 300e 8n 16n
    rtx4090 p100 v100 t4x8 a10g g5g48 deb12 arm64 amd64 s390x ppc64 u2204 u2404 x660g45l 2r5500g5 d2l h2o3 b1g4 b2g4
"""
THINGS = _THINGS.split()


@pytest.mark.parametrize(("name", "another", "expected"), SAME_FAMILY)
def test_two_runs_of_a_generated_name_are_one_family(name: str, another: str, expected: str) -> None:
    assert family(name) == expected
    assert family(another) == expected


@pytest.mark.parametrize("prefix", ["train-", "train_", "bench/", "exp.", "llama-ft-20260901-"])
def test_names_of_things_stay_apart(prefix: str) -> None:
    families = Counter(family(prefix + thing) for thing in set(THINGS))
    assert len(THINGS) > 300
    assert [key for key, count in families.items() if count > 1] == []


@pytest.mark.parametrize(
    "name",
    [
        *("bert/lr=0.001", "bert/lr=0.01", "gpt_12288_96", "vocab_50257_1024", "steps_50000_8", "month_202601_3"),
        *("fluffy-sunset-12", "x7k2p-bert", "train-kqzwx", "train_x7k2p", "resnet-worker-8"),
    ],
)
def test_what_stays_ambiguous_is_kept(name: str) -> None:
    assert family(name) == name


POD = "bcdfghjklmnpqrstvwxz2456789"
LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("before", "alphabet", "length", "after", "least"),
    [
        ("train-bert-", POD, 5, "", 0.28),
        ("train-bert-", POD, 5, "-train-1029384756", 0.28),
        ("bert-", LOWER, 8, "", 0.33),
        ("bert-", "0123456789abcdef", 6, "", 0.38),
        ("bert-20260901-", "0123456789abcdef", 6, "", 0.69),
        ("raysubmit_", LOWER + LOWER.upper(), 16, "", 1.0),
    ],
)
def test_how_many_random_ends_are_recognised(before: str, alphabet: str, length: int, after: str, least: float) -> None:
    rng = random.Random(0)
    names = [before + "".join(rng.choices(alphabet, k=length)) + after for _ in range(2_000)]
    assert Counter(map(family, names)).most_common(1)[0][1] >= least * len(names)


def column(file: Path, name: str) -> set[str]:
    with file.open(newline="", encoding="utf-8") as lines:
        return {row[name] for row in csv.DictReader(lines)}


def test_models_of_timm_stay_as_they_are(shared_data: Path) -> None:
    models = column(shared_data / "timm" / "runs.csv", "model")
    assert len(models) > 1_000
    for launch in (str, "train-{}".format, "train_{}".format, "bench/{}".format):
        assert [name for model in models if family(name := launch(model)) != name] == []


def test_no_word_of_a_recurring_name_looks_generated(shared_data: Path) -> None:
    """Each word of 23,000 names, put last: merged are only those that the rules on digits alone take out."""
    words: Callable[[str], list[str]] = re.compile("[0-9A-Za-z]+").findall
    folder = shared_data / "job-names"
    names = column(folder / "ci_and_slurm_job_names.csv", "name") | column(folder / "mlperf_run_names.csv", "name")
    last = {word for name in names for word in words(name) if re.search("[0-9]", word)}
    merged = {word for word in last if family(f"train-{word.lower()}") == "train"}
    assert len(last) > 600
    assert {word for word in merged if not word.isdigit()} <= {"9ff10a1"}
