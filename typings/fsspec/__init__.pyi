from . import core as core
from .spec import AbstractFileSystem as AbstractFileSystem
