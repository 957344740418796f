"""Reads what the command `hairpin` measured: https://github.com/hairpin-latency/hairpin

>>> import hairpin
>>> record = hairpin.load("latest")     # or a file, or the folder of a run
>>> record.rows                         # a pandas DataFrame; record.table() needs no pandas
>>> record.plot()
"""

from importlib.metadata import PackageNotFoundError, version

from .errors import NothingToDraw, RecordError
from .read import load
from .record import Record, Records

try:
    __version__ = version("hairpin")
except PackageNotFoundError:
    # Imported from the sources.
    __version__ = "0"

__all__ = ["NothingToDraw", "Record", "RecordError", "Records", "load"]
