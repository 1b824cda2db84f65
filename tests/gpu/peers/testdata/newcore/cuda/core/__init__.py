"""cuda.core as it is today."""

from fakecore import Device, EventOptions, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, StreamOptions, launch

__version__ = "9.9"
