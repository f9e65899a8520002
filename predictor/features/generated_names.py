"""Names that a tool ends differently for every run: a few random letters and digits, or the number of an array.

A word counts as random if letters and digits change places often for its length and it does not read as a setting
(``8x22b``, ``w4a16``, ``tp4pp2``), and only at the end of a name: ``train-mpt7b`` and ``train-mpt30b`` are two jobs.
Of the random ends that tools make, that recognises about 29% of Kubernetes' five letters, 35% of the eight of Katib
and of trackers, and 41% of six hexadecimal digits (71% after a date); the others look like names of things, as
``kqzwx`` and ``bert7`` do, and a job that has such a name should state its family. Of the words that end public
names of packages 1 in 3,000 is taken for random, and half of those are.
"""

__all__ = ["GENERATED_NAME", "HASH_AFTER_DATE", "POD", "SLURM_ARRAY", "is_size"]

POD = "[bcdfghjklmnpqrstvwxz2456789]{5}"  # the alphabet of Kubernetes' rand.String: no vowels, no 0, 1, 3
_END = "(?![0-9A-Za-z])"
_NUMBER_OF = "[0-9]{1,5}(?:p[0-9]{1,2})?[bdeghkmnstwx]?"  # 7b, 8x, 128k, 2p5b
_KEY = "fp|bf|int?|kv|[cdeprtv]p|bs|gb|lr|wd|ft|xl|nv|mx|mi|it|v"
_SETTING = (  # names of things and settings that look random, as far as the place of the digits goes
    rf"(?:{_NUMBER_OF}|[a-z][0-9]{{2,3}}(?![0-9])|[a-z]2[a-z](?=[0-9p]{{1,5}}b)|w[0-9]{{1,2}}a|r2plus|{_KEY}){{1,6}}{_END}"
    rf"|[a-z][0-9]++[a-z][0-9]++{_END}|[a-z][24][a-z][24][a-z]{_END}|e[0-9]m[0-9]|[0-9]++ba[0-9]++b"
)
_A, _D = "[a-z]++", "[0-9]++"  # each change between letters and digits is evidence
_FIVE = (
    f"{_A}{_D}{_A}[0-9]|{_D}{_A}{_D}[a-z]"
    f"|(?={POD}{_END})(?:{_D}{_A}[0-9]|(?:[cdfghjklmnqwxz](?=[4-9])|[a-z](?!t)[a-z](?=[5-9]))[4-9][a-z]{{2}})"
)
_SIX = f"{_A}{_D}{_A}[0-9]|{_D}{_A}{_D}[a-z]|{_D}[a-f]{{2,}}+[0-9]"
_EIGHT = f"{_A}{_D}{_A}{_D}{_A}[0-9]|{_A}[0-9][a-z]++[0-9][a-z]|[0-9]{{1,2}}[a-z]++[0-9]{{1,2}}[a-z]"
_REPLICA = "worker|master|chief|launcher|evaluator|ps|head|driver"
_RANDOM = (  # a word with a digit, by length, and then what it must look like
    r"[a-z0-9](?<=(?=[a-z]{0,6}+[0-9]).)(?:"
    rf"[a-z0-9]{{4}}{_END}(?<=(?<=-)(?!{_SETTING})(?={_FIVE}).{{5}})"
    rf"|[0-9a-f]{{5}}{_END}(?<=(?<=[-_./])(?!{_SETTING})(?={_SIX})[0-9a-f]{{6}})"
    rf"|[a-z0-9]{{7}}{_END}(?<=(?<=[-_./])(?!{_SETTING})(?={_EIGHT}).{{8}}))"
)
_LAST = rf"(?:(?:-(?:{_REPLICA})(?:-[0-9]{{1,4}})?)?\Z|(?=(?:-[a-z0-9]{{1,40}}+){{1,6}}-[0-9]{{7,10}}\Z))"

GENERATED_NAME = _RANDOM + _LAST
"""The random end of a generated name, with the replica that may follow; or before the number of an Argo node."""

HASH_AFTER_DATE = (
    f"[-_.](?![0-9]++(?:[bde][0-9]++){{1,2}}{_END}|[a-f][0-9]++[a-f][0-9]++{_END}|[0-9]++ba[0-9]++b)"
    r"(?=[0-9]++[a-f]|[a-f]++[0-9]++[a-f])[0-9a-f]{6}\Z"
)
"""Six hexadecimal digits that end a name after a date, where less has to speak for them."""

SLURM_ARRAY = (
    r"[1-9][0-9]{3,8}_\[[0-9,%-]{1,40}\]|[0-9]{7,9}(?<!000)_[0-9]{1,4}\Z|(?P<array>[1-9][0-9]{4,5})_[0-9]{1,4}\Z"
)
"""Number of a Slurm array and of its task; what `is_size` says of the group ``array`` decides."""

_VOCABULARIES = {21_128, 21_841, 21_843, 28_996, 30_522, 50_257, 50_265, 119_547, 250_002}


def is_size(number: int) -> bool:
    """Whether a number of five or six digits is rather a size than the number of a job.

    Widths are multiples of 32, counts of steps are round, vocabularies are few, and 202601 is a month.
    """
    return number % 32 == 0 or number % 50 == 0 or number in _VOCABULARIES or 2000 < number // 100 < 2040
