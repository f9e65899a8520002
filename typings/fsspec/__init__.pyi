from . import core as core
from .spec import AbstractFileSystem as AbstractFileSystem

def get_filesystem_class(protocol: str) -> type[AbstractFileSystem]: ...
