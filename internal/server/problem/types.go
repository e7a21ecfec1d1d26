package problem

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Type is one type of problem. Its slug is public and stable: programs distinguish problems by it, and /problems/{slug} is its page.
type Type struct {
	slug, title string
	status      int
	detail      string        // default detail, used if there is no more precise one
	retry       time.Duration // time before another try; 0: another try does not help, or each answer sets its own time
	page        string        // what the page says
}

// The registry of problems: answers can contain no others.
var (
	AddressTaken = Type{
		slug: "address-taken", title: "Address is taken", status: http.StatusConflict, detail: "the address or id belongs to another endpoint of this app",
		page: "The address or the id belongs to another endpoint. Only its subscriber or a back end with role publish may change that one.",
	}
	AuthUnavailable = Type{
		slug: "auth-unavailable", title: "Cannot check credentials", status: http.StatusServiceUnavailable, detail: "the app's token service did not answer; retry", retry: retryStore,
		page: "The app's token service (introspection or JWKS) did not answer, or the app is new and the data of a deleted app of its name is still being erased. Retry after the time in Retry-After.",
	}
	BadAnswer = Type{
		slug: "bad-answer", title: "Worker's answer is no answer of HTTP", status: http.StatusBadGateway,
		page: "The worker that was asked answered with something that cannot be passed on; \"detail\" says what is wrong with it. It may have done what it was asked. Whoever runs the worker has to mend it.",
	}
	BadInput = Type{
		slug: "bad-input", title: "Bad input", status: http.StatusBadRequest,
		page: "A value of the request breaks a rule. The member \"field\" names it as the request does, \"detail\" says what is wrong.",
	}
	BadJSON = Type{
		slug: "bad-json", title: "Malformed JSON", status: http.StatusBadRequest, detail: "the body is not valid UTF-8",
		page: "The body is not JSON, not an object, or not UTF-8. \"detail\" says what was found where.",
	}
	BadToken = Type{
		slug: "bad-token", title: "Token is not valid", status: http.StatusForbidden, detail: "the tracking token was not made by this server for this",
		page: "The tracking token is not one that this server made, or not for this link.",
	}
	BodyIncomplete = Type{
		slug: "body-incomplete", title: "Body is incomplete", status: http.StatusBadRequest, detail: "the request's body ended early",
		page: "The connection ended before the whole body had come. Nothing was done.",
	}
	BodyTimeout = Type{
		slug: "body-timeout", title: "Body came too slowly", status: http.StatusRequestTimeout, detail: "the request's body did not arrive in time",
		page: "The body did not come in time. Nothing was done.",
	}
	BusUnavailable = Type{
		slug: "bus-unavailable", title: "Message bus is away", status: http.StatusServiceUnavailable, detail: "topics and requests are not available now; retry", retry: retryStore,
		page: "The server cannot reach its message bus (NATS). Topics and requests do not work until it can; notifications and objects are not concerned. Retry after the time in Retry-After.",
	}
	Busy = Type{
		slug: "busy", title: "Server is busy", status: http.StatusServiceUnavailable,
		page: "The server has as many requests of this kind at work as it can carry. Retry after the time in Retry-After.",
	}
	Canceled = Type{
		slug: "canceled", title: "Canceled", status: http.StatusServiceUnavailable, detail: "it may have been stored: retry with the same id", retry: retryStore,
		page: "The client went away before the answer. What was asked may have been done: retry with the same id.",
	}
	ChannelDisabled = Type{
		slug: "channel-disabled", title: "Channel is disabled", status: http.StatusConflict, detail: "enable it with PUT /v1/channels/{channel}",
		page: "The app has switched this channel off. PUT /v1/channels/{channel} with enabled true switches it on.",
	}
	// ChannelUnused is the public answer for a channel that the app has switched off.
	ChannelUnused = ChannelDisabled.variant(http.StatusNotFound, ChannelDisabled.title)
	ChannelUnable = Type{
		slug: "channel-unable", title: "Channel cannot send", status: http.StatusConflict,
		page: "A channel of the campaign cannot send, or its provider refused what was asked; \"detail\" says why.",
	}
	ChannelUnconfigured = Type{
		slug: "channel-unconfigured", title: "Channel is not configured", status: http.StatusConflict, detail: "set its credentials with PUT /v1/channels/{channel}",
		page: "The app has not set this channel up. PUT /v1/channels/{channel} with its credentials does.",
	}
	Closing = Type{
		slug: "closing", title: "Server is stopping", status: http.StatusServiceUnavailable, detail: "retry with the same id", retry: retryStore,
		page: "The server is stopping. What was asked may have been done: retry with the same id.",
	}
	Forbidden = Type{
		slug: "forbidden", title: "Not allowed", status: http.StatusForbidden, detail: "the key's roles do not allow this",
		page: "The credentials are good but do not allow this: a role is missing, the app is another one, or the page's origin is not on the app's list.",
	}
	HeadersTooLarge = Type{
		slug: "headers-too-large", title: "Headers are too large", status: http.StatusRequestHeaderFieldsTooLarge,
		page: "The headers of a call through the gateway have more than 16 KB.",
	}
	HTTPVersion = Type{
		slug: "http-version", title: "HTTP version is not supported", status: http.StatusHTTPVersionNotSupported,
		page: "The path needs another version of HTTP: a WebSocket starts with a request of HTTP/1.1. A proxy in between must not turn it into HTTP/2.",
	}
	Exists = Type{
		slug: "exists", title: "Exists already", status: http.StatusConflict, detail: "one of this name exists already",
		page: "There is a thing of this name already. Nothing was done: choose another name, or change the one that there is.",
	}
	IDConflict = Type{
		slug: "id-conflict", title: "Id is taken", status: http.StatusConflict, detail: "a notification with this id and other content exists for this recipient; use another id",
		page: "The id belongs to a notification with other content for the same recipient. Use another id; to retry, send the same content.",
	}
	IdempotencyMismatch = Type{
		slug: "idempotency-mismatch", title: "Idempotency key was used", status: http.StatusUnprocessableEntity, detail: "this Idempotency-Key was used with another body; use a new one",
		page: "The Idempotency-Key was used within 24 hours with another body. Use a new key for a new request.",
	}
	InUse = Type{
		slug: "in-use", title: "Still in use", status: http.StatusConflict,
		page: "Something else needs what was to be deleted; \"detail\" names it. Nothing was done: change or delete that first.",
	}
	Internal = Type{
		slug: "internal", title: "Internal error", status: http.StatusInternalServerError, detail: "the server could not answer; its log says why",
		page: "Something failed that should not. The server's log says what; what was asked may have been done.",
	}
	MailboxFull = Type{
		slug: "mailbox-full", title: "Mailbox is full", status: http.StatusTooManyRequests, retry: 30 * time.Second,
		detail: "the recipient has too many pending notifications; wait until some are acknowledged or expire",
		page:   "The recipient has as many pending notifications as the server allows. Wait until some are acknowledged or expire.",
	}
	MethodNotAllowed = Type{
		slug: "method-not-allowed", title: "Method not allowed", status: http.StatusMethodNotAllowed,
		page: "The path exists, but not with this method. The header Allow lists those that do.",
	}
	NoAnswer = Type{
		slug: "no-answer", title: "No answer in time", status: http.StatusGatewayTimeout, detail: "the worker that was asked did not answer in time; it may have done what it was asked",
		page: "A worker was asked and did not answer in time. It may have done what it was asked: the request is not made again by itself. Ask again if that is harmless, or with a longer timeout.",
	}
	NobodyServes = Type{
		slug: "nobody-serves", title: "Nobody serves this", status: http.StatusServiceUnavailable, detail: "no worker serves this subject now", retry: retryStore,
		page: "No worker is connected that serves this subject. Nobody was asked, so asking again is harmless.",
	}
	NotConnected = Type{
		slug: "not-connected", title: "Recipient is not connected", status: http.StatusServiceUnavailable, detail: "the recipient has no connection that could be asked; a notification with reply_by asks it when it comes",
		page: "The recipient has no live session that does more than observe, or none of the device that was named. Nobody was asked. A notification with reply_by asks a recipient that is away.",
	}
	WorkerGone = Type{
		slug: "worker-gone", title: "Worker has gone", status: http.StatusGatewayTimeout, detail: "the connection of the worker that was asked ended before it answered; it may have done what it was asked",
		page: "The worker that was asked lost its connection before it answered. It may have done what it was asked: the request is not made again by itself. Ask again if that is harmless.",
	}
	WorkersBusy = Type{
		slug: "workers-busy", title: "All workers are busy", status: http.StatusServiceUnavailable, detail: "those who serve this have as many requests as they take; nobody was asked", retry: retryStore,
		page: "Every worker that serves this has as many requests under way as its window takes. Nobody was asked, so asking again is harmless. More workers or a wider window help.",
	}
	NoSpace = Type{
		slug: "no-space", title: "Disk is full", status: http.StatusServiceUnavailable, retry: 30 * time.Second,
		detail: "the server has too little free disk space to store this; retry later with the same id",
		page:   "The server has too little free disk space to store anything. Nothing was stored. It recovers by itself once there is space.",
	}
	NoSuchPath = Type{
		slug: "no-such-path", title: "No such path", status: http.StatusNotFound,
		page: "Nothing is served at this path. /openapi.yaml lists what is.",
	}
	NoSuchProfile = Type{
		slug: "no-such-profile", title: "No such profile", status: http.StatusNotFound, detail: "there are profile, heap, allocs, goroutine, threadcreate, block and mutex",
		page: "The server's runtime keeps no profile of this name. \"detail\" lists those that there are.",
	}
	NoSuchSession = Type{
		slug: "no-such-session", title: "No such session", status: http.StatusNotFound, detail: "the session has ended or belongs to another node; connect again",
		page: "The session that the request names has ended, or another node holds it. Connect again; what was not acknowledged comes again.",
	}
	NotFound = Type{
		slug: "not-found", title: "Not found", status: http.StatusNotFound, detail: "there is no such thing in this app",
		page: "There is no such notification, recipient, endpoint, channel or key in this app.",
	}
	NotReady = Type{
		slug: "not-ready", title: "Not ready", status: http.StatusServiceUnavailable, retry: retryStore,
		page: "The server cannot store now; \"detail\" says why.",
	}
	NotStored = Type{
		slug: "not-stored", title: "Could not be stored", status: http.StatusServiceUnavailable, detail: "it may have been stored: retry with the same id", retry: retryStore,
		page: "The store failed. What was asked may have been stored: retry with the same id, which makes a duplicate harmless.",
	}
	NotSupported = Type{
		slug: "not-supported", title: "Not supported", status: http.StatusNotImplemented, detail: "the store that holds this app's notifications cannot do this",
		page: "The app keeps its notifications in a store that cannot do this. An app in the server's own store can.",
	}
	Origin = Type{
		slug: "origin", title: "Origin is not allowed", status: http.StatusForbidden, detail: "pages of this origin may not connect; godwit app set NAME --origin allows them",
		page: "The page's origin is not on the app's list of those that may connect. godwit app set NAME --origin adds it.",
	}
	ProfileRunning = Type{
		slug: "profile-running", title: "A profile is running", status: http.StatusConflict, detail: "wait until the other CPU profile has ended",
		page: "The server records one CPU profile at a time, and one is running. Wait until it has ended, which takes a minute at most.",
	}
	RateLimited = Type{
		slug: "rate-limited", title: "Too many requests", status: http.StatusTooManyRequests,
		page: "The API key has used up its publish rate, or the address its registrations. Retry after the time in Retry-After.",
	}
	// ConnectRate is the problem of an address that connects too often.
	ConnectRate = RateLimited.variant(RateLimited.status, TooMany.title)
	Refused     = Type{
		slug: "refused", title: "Refused", status: http.StatusBadRequest,
		page: "The server refuses a session with what the request asks for; \"detail\" gives its reason. Coming back with the same request does not help.",
	}
	RevisionMismatch = Type{
		slug: "revision-mismatch", title: "Another revision", status: http.StatusPreconditionFailed, detail: "somebody has changed it meanwhile: read it, and change that",
		page: "The request names in If-Match which revision it is meant for, or in If-None-Match that there is none yet, and there is another one: somebody has changed it meanwhile. Nothing was done. Read it, and change what it says now.",
	}
	StoreAway = Type{
		slug: "store-away", title: "Database is away", status: http.StatusServiceUnavailable, retry: retryStore,
		detail: "the database does not answer; what was asked may have been stored: retry with the same id",
		page:   "The server cannot reach its database (PostgreSQL). What was asked may have been stored: retry with the same id, which makes a duplicate harmless, after the time in Retry-After. Topics and requests go on meanwhile, and so do live sessions.",
	}
	StoreDamaged = Type{
		slug: "store-damaged", title: "Stored data is damaged", status: http.StatusServiceUnavailable, retry: 30 * time.Second,
		page: "The server has found that a file of its own is not as it was written, so it stores nothing more; \"detail\" says what is damaged. Its operator has to repair it: godwit doctor --verify tells more. Retry later with the same id.",
	}
	Subprotocol = Type{
		slug: "subprotocol", title: "Unknown subprotocol", status: http.StatusBadRequest,
		page: "The client offers WebSocket subprotocols, and the server speaks none of them. \"detail\" lists those that it speaks; offering none is as good.",
	}
	Timeout = Type{
		slug: "timeout", title: "Took too long", status: http.StatusServiceUnavailable, detail: "it may have been stored: retry with the same id", retry: retryStore,
		page: "The server could not finish in time. What was asked may have been done: retry with the same id.",
	}
	TooLarge = Type{
		slug: "too-large", title: "Request is too large", status: http.StatusRequestEntityTooLarge,
		page: "The request is larger than allowed: 256 KB for one publish; 10,000 lines and 32 MB for a batch.",
	}
	TooMany = Type{
		slug: "too-many", title: "Too many connections", status: http.StatusServiceUnavailable, detail: "the server has all the connections it can have",
		page: "There are as many connections as allowed: all that the server or this node carries, or those of one recipient or address. Connect again later, after the time in Retry-After if there is one.",
	}
	// TooManyOfOne is the problem of a recipient or an address that has used its share of connections.
	TooManyOfOne    = TooMany.variant(http.StatusTooManyRequests, TooMany.title)
	Unauthenticated = Type{
		slug: "unauthenticated", title: "Not authenticated", status: http.StatusUnauthorized, detail: "send Authorization: Bearer KEY with a valid key",
		page: "Credentials are missing, wrong or expired. Back ends send Authorization: Bearer with an API key, clients a token of their app.",
	}
	Unavailable = Type{
		slug: "unavailable", title: "Cannot connect now", status: http.StatusServiceUnavailable,
		page: "The server takes no new sessions now, because it is stopping or cannot reach what it needs; \"detail\" gives its reason. Connect again later.",
	}
	UnknownApp = Type{
		slug: "unknown-app", title: "No such app", status: http.StatusNotFound, detail: "name an existing app",
		page: "There is no app of this name, or none was named and there is not exactly one.",
	}
	UnsupportedEncoding = Type{
		slug: "unsupported-encoding", title: "Unsupported encoding", status: http.StatusUnsupportedMediaType,
		page: "The body is compressed. Send it as it is.",
	}
	UpgradeRequired = Type{
		slug: "upgrade-required", title: "Upgrade required", status: http.StatusUpgradeRequired,
		page: "The path speaks WebSocket, and the request does not ask for one. GET /v1/stream serves the same events over plain HTTP.",
	}
	WrongState = Type{
		slug: "wrong-state", title: "Not in this state", status: http.StatusConflict,
		page: "The campaign is not in a state that allows this. \"detail\" says which it is in and what is possible.",
	}
)

// retryStore is the wait before another try when the server cannot store or check something now.
const retryStore = 2 * time.Second

// variant returns a type with t's page, but with another status or title.
func (t Type) variant(status int, title string) Type {
	t.status, t.title = status, title
	return t
}

// Types lists the registry.
func Types() []Type {
	return []Type{
		AddressTaken, AuthUnavailable, BadAnswer, BadInput, BadJSON, BadToken, BodyIncomplete, BodyTimeout, BusUnavailable, Busy, Canceled, ChannelDisabled, ChannelUnused,
		ChannelUnable, ChannelUnconfigured, Closing, Exists, Forbidden, HeadersTooLarge, HTTPVersion, IDConflict, IdempotencyMismatch, InUse, Internal, MailboxFull,
		MethodNotAllowed, NoAnswer, NobodyServes, NoSpace, NoSuchPath, NoSuchProfile, NoSuchSession, NotConnected, NotFound, NotReady, NotStored,
		NotSupported, Origin, ProfileRunning, RateLimited, ConnectRate, Refused, RevisionMismatch, StoreAway, StoreDamaged, Subprotocol, Timeout, TooLarge, TooMany, TooManyOfOne,
		Unauthenticated, Unavailable, UnknownApp, UnsupportedEncoding, UpgradeRequired, WorkerGone, WorkersBusy, WrongState,
	}
}

// Slug is the type's public name.
func (t Type) Slug() string { return t.slug }

// Title says in words what is wrong.
func (t Type) Title() string { return t.title }

// Status is the HTTP status of the type's answers.
func (t Type) Status() int { return t.status }

// Page returns the text at /problems/{slug}; false if there is no such problem.
func Page(slug string) (text string, ok bool) {
	types := Types()
	i := slices.IndexFunc(types, func(t Type) bool { return t.slug == slug })
	if i < 0 {
		return "", false
	}
	return types[i].page, true
}

// New makes a problem with the type's own detail.
func (t Type) New() *Problem { return t.With(t.detail) }

// With makes a problem with a more precise detail.
func (t Type) With(detail string) *Problem {
	return &Problem{Type: pages + t.slug, Title: t.title, Status: t.status, Detail: detail, RetryAfter: t.retry}
}

// Withf is With by a format.
func (t Type) Withf(format string, args ...any) *Problem { return t.With(fmt.Sprintf(format, args...)) }

// pages is the path prefix of problems' pages.
const pages = "/problems/"
