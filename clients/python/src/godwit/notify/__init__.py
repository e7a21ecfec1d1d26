"""The interface for observation units: follow objects over links that come and go.

A unit says which objects it follows and gets an observable for each. It learns the latest version of each object, not
every version, however long it was away and whatever state either side has lost. `Notify` works in a thread of its own.
"""

from ..errors import RefusedError, RegistrationError, StateError, SyncTimeoutError
from ..registrations import Change
from ..state import Registration, RegistrationStatus, State
from .connection import Connection
from .feed import Notification
from .unit import Notify

__all__ = [
    "Change",
    "Connection",
    "Notification",
    "Notify",
    "RefusedError",
    "Registration",
    "RegistrationError",
    "RegistrationStatus",
    "State",
    "StateError",
    "SyncTimeoutError",
]
