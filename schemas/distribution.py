"""The name that Leap is installed under; it is imported as ``leap``, a name that another project has on the index."""

DISTRIBUTION = "leap-launch"


def install_command(extra: str) -> str:
    """What to run for an extra, or for several by commas.

    >>> install_command("s3,signing")
    "pip install 'leap-launch[s3,signing]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
