package pushgate

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// refusal is why a sender's request failed, with the number by which senders of Web Push know it.
type refusal struct {
	status, errno int
	message       string
	after         time.Duration // when to try again; 0: the sender must change something
}

func (r *refusal) Error() string { return r.message }

// Refusals by number. Those of encryption and VAPID say what was wrong.
var (
	errNoEndpoint = &refusal{http.StatusNotFound, 102, "nothing has this URL: it is no push endpoint of this server, or no message", 0}
	errGone       = &refusal{http.StatusGone, 106, "the subscription has ended: remove it", 0}
	errTooLarge   = &refusal{http.StatusRequestEntityTooLarge, 104, "a message has " + strconv.Itoa(maxBody) + " bytes at most, and " + strconv.Itoa(maxRaw) + " if it is not encrypted", 0}
	errNoTTL      = &refusal{http.StatusBadRequest, 111, "TTL is missing or no number of seconds", 0}
	errTopic      = &refusal{http.StatusBadRequest, 113, "Topic has 1 to 32 characters of base64url", 0}
	errPastTTL    = &refusal{http.StatusBadRequest, 114, "TTL is negative", 0}
	errFull       = &refusal{http.StatusTooManyRequests, 201, "too many messages wait for this device", time.Minute}
	errLater      = &refusal{http.StatusServiceUnavailable, 201, "the message was not stored: send it again later", 10 * time.Second}
	errSlowBody   = &refusal{http.StatusRequestTimeout, 201, "the message did not come in time: send it again", time.Second}
)

func badEncryption(message string) error {
	return &refusal{http.StatusBadRequest, 110, message, 0}
}

func badSender(message string) error {
	return &refusal{http.StatusUnauthorized, 109, "VAPID: " + message, 0}
}

// moreInfo is where senders read about refusals.
const moreInfo = "/docs/guides/push-service"

// refuse answers a request that failed.
func (g *Gateway) refuse(w http.ResponseWriter, r *refusal) {
	g.counts.refused(r.errno)
	h := w.Header()
	switch r.status {
	case http.StatusGone:
		h.Set("Cache-Control", "max-age=86400")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "vapid")
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		h.Set("Connection", "close") // the server does not read the rest of the body
	}
	if r.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(r.after/time.Second)))
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(struct { // an error means that the sender is gone
		Code     int    `json:"code"`
		Errno    int    `json:"errno"`
		Error    string `json:"error"`
		Message  string `json:"message"`
		MoreInfo string `json:"more_info"`
	}{r.status, r.errno, http.StatusText(r.status), r.message, moreInfo})
}
