package httpapi

import (
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/problem"
)

// explanations are what /problems/{slug} says: the type of a problem is the path of its explanation.
var explanations = map[string]string{
	"address-taken":        "The address or the id belongs to another endpoint. Only its subscriber or a back end with role publish may change that one.",
	"auth-unavailable":     "The app's token service (introspection or JWKS) did not answer. Retry after the time in Retry-After.",
	"bad-input":            "A value of the request breaks a rule. The member \"field\" names it as the request does, \"detail\" says what is wrong.",
	"bad-json":             "The body is not JSON, not an object, or not UTF-8. \"detail\" says what was found where.",
	"bad-token":            "The tracking token is not one that this server made, or not for this link.",
	"body-incomplete":      "The connection ended before the whole body had come. Nothing was done.",
	"body-timeout":         "The body did not come in time. Nothing was done.",
	"busy":                 "The server has as many requests of this kind at work as it can carry. Retry after the time in Retry-After.",
	"canceled":             "The client went away before the answer. What was asked may have been done: retry with the same id.",
	"channel-disabled":     "The app has switched this channel off. PUT /v1/channels/{channel} with enabled true switches it on.",
	"channel-unable":       "A channel of the campaign cannot send; \"detail\" says why.",
	"channel-unconfigured": "The app has not set this channel up. PUT /v1/channels/{channel} with its credentials does.",
	"closing":              "The server is stopping. What was asked may have been done: retry with the same id.",
	"forbidden":            "The credentials are good but do not allow this: a role is missing, the app is another one, or the page's origin is not on the app's list.",
	"id-conflict":          "The id belongs to a notification with other content for the same recipient. Use another id; to retry, send the same content.",
	"idempotency-mismatch": "The Idempotency-Key was used within 24 hours with another body. Use a new key for a new request.",
	"internal":             "Something failed that should not. The server's log says what; what was asked may have been done.",
	"mailbox-full":         "The recipient has as many pending notifications as the server allows. Wait until some are acknowledged or expire.",
	"method-not-allowed":   "The path exists, but not with this method. The header Allow lists those that do.",
	"no-space":             "The server has too little free disk space to store anything. Nothing was stored. It recovers by itself once there is space.",
	"no-such-path":         "Nothing is served at this path. /openapi.yaml lists what is.",
	"not-found":            "There is no such notification, recipient, endpoint, channel or key in this app.",
	"not-ready":            "The server cannot store now; \"detail\" says why.",
	"not-stored":           "The store failed. What was asked may have been stored: retry with the same id, which makes a duplicate harmless.",
	"rate-limited":         "The API key has used up its publish rate, or the address its registrations. Retry after the time in Retry-After.",
	"timeout":              "The server could not finish in time. What was asked may have been done: retry with the same id.",
	"too-large":            "The request is larger than allowed: 256 KB for one publish; 10,000 lines and 32 MB for a batch.",
	"unauthenticated":      "Credentials are missing, wrong or expired. Back ends send Authorization: Bearer with an API key, clients a token of their app.",
	"wrong-state":          "The campaign is not in a state that allows this. \"detail\" says which it is in and what is possible.",
	"unknown-app":          "There is no app of this name, or none was named and there is not exactly one.",
	"unsupported-encoding": "The body is compressed. Send it as it is.",
}

// explain is GET /problems/{slug}.
func (a *api) explain(c *call) error {
	slug := c.r.PathValue("slug")
	text, ok := explanations[slug]
	if !ok {
		return problem.New(http.StatusNotFound, "not-found", "Not found", "there is no problem of this name")
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return c.send(http.StatusOK, slices.Concat([]byte(slug), []byte("\n\n"), []byte(text), []byte("\n")))
}
