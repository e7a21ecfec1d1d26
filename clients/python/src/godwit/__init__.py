"""Publish notifications to a Godwit server, listen for them, and follow objects.

A back end makes a Client (or an AsyncClient) with an API key and calls `publish`; it returns once the notification is
on the server's disk. A recipient's program makes one with a token and calls `listen`; its handler is called for every
notification, and returning acknowledges it. Publishes are retried under the same id, listeners reconnect and resume, so
a notification arrives at least once and the handler sees it once, unless the program itself was restarted in between.

Units that follow objects over bad links have an interface of their own in `godwit.notify`.
"""

from ._version import __version__
from .blocking import Client, Listening
from .blockingaudience import Campaign, Channels, Endpoints
from .campaigns import AsyncCampaign, CampaignDelivery, CampaignFields, CampaignStatus, Correction
from .client import AsyncClient
from .deduplicator import Deduplicator
from .endpoints import AsyncChannels, AsyncEndpoints, Endpoint
from .errors import (
    BatchError,
    FrameError,
    GodwitError,
    GoodbyeError,
    NackAfter,
    NoAnswerError,
    NobodyServesError,
    Problem,
    ProblemError,
    RefusedError,
    RegistrationError,
    ServeError,
    StateError,
    SubscriptionError,
    SyncTimeoutError,
    UndecodableError,
    UnreachableError,
)
from .frames import InboxNews, InboxState, Message, Notification, Reply, Request, Welcome
from .inbox import InboxCounts, InboxItem, InboxPage
from .objects import Objects, ObjectVersion
from .publication import Action, Escalation, Publication
from .registrations import Change
from .results import (
    ChannelStatus,
    Digest,
    Event,
    ObjectRegistration,
    ObjectValue,
    Preferences,
    Receipt,
    Recipient,
    Response,
    Session,
    Status,
)
from .state import Registration, RegistrationStatus, State
from .token import Token
from .topics import Topics
from .workers import Workers

__all__ = [
    "Action",
    "AsyncCampaign",
    "AsyncChannels",
    "AsyncClient",
    "AsyncEndpoints",
    "BatchError",
    "Campaign",
    "CampaignDelivery",
    "CampaignFields",
    "CampaignStatus",
    "Change",
    "ChannelStatus",
    "Channels",
    "Client",
    "Correction",
    "Deduplicator",
    "Digest",
    "Endpoint",
    "Endpoints",
    "Escalation",
    "Event",
    "FrameError",
    "GodwitError",
    "GoodbyeError",
    "InboxCounts",
    "InboxItem",
    "InboxNews",
    "InboxPage",
    "InboxState",
    "Listening",
    "Message",
    "NackAfter",
    "NoAnswerError",
    "NobodyServesError",
    "Notification",
    "ObjectRegistration",
    "ObjectValue",
    "ObjectVersion",
    "Objects",
    "Preferences",
    "Problem",
    "ProblemError",
    "Publication",
    "Receipt",
    "Recipient",
    "RefusedError",
    "Registration",
    "RegistrationError",
    "RegistrationStatus",
    "Reply",
    "Request",
    "Response",
    "ServeError",
    "Session",
    "State",
    "StateError",
    "Status",
    "SubscriptionError",
    "SyncTimeoutError",
    "Token",
    "Topics",
    "UndecodableError",
    "UnreachableError",
    "Welcome",
    "Workers",
    "__version__",
]
