"""cuda.core as it was before 0.5, with nothing in it that costs.py can do
without."""

from fakecore import Device, OldEventOptions as EventOptions, StreamOptions

__version__ = "0.3.2"
