package pushgate

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Endpoint serves push endpoints: /wpush/{version}/{token}.
func (g *Gateway) Endpoint(w http.ResponseWriter, r *http.Request) {
	allowPages(w.Header())
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // fails only for a writer without deadlines
	switch r.Method {
	case http.MethodPost:
		if err := g.send(w, r); err != nil {
			g.fail(w, r, err)
		}
	case http.MethodGet, http.MethodHead: // by which an app of UnifiedPush knows a push server
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"unifiedpush":{"version":1}}`) // an error means that the caller is gone
	default:
		answerOther(w, r, "GET, POST")
	}
}

// Message serves the messages that wait: /m/{id}.
func (g *Gateway) Message(w http.ResponseWriter, r *http.Request) {
	allowPages(w.Header())
	if r.Method != http.MethodDelete {
		answerOther(w, r, http.MethodDelete)
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("the database did not answer in %s", patience))
	defer cancel()
	id := r.PathValue("id")
	if len(id) != idLength || !isBase64URL(id) {
		g.refuse(w, errNoEndpoint)
		return
	}
	if _, err := g.cfg.Mailbox.Recall(ctx, App, id, ""); err != nil {
		g.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// allowPages lets pages of every origin send: a push endpoint is the only credential that there is.
func allowPages(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Location, Retry-After, TTL, WWW-Authenticate")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// answerOther answers a browser's preflight request, or a method that a path does not take.
func answerOther(w http.ResponseWriter, r *http.Request, methods string) {
	h := w.Header()
	h.Set("Allow", methods+", OPTIONS")
	if r.Method != http.MethodOptions {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Encoding, Content-Type, Crypto-Key, Encryption, Encryption-Key, Topic, TTL, Urgency")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

// fail answers with the refusal of an error.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	why, known := errors.AsType[*refusal](err)
	switch {
	case known:
	case errors.Is(err, mailbox.ErrNotFound):
		why = errNoEndpoint
	case errors.Is(err, mailbox.ErrFull):
		why = errFull
	default:
		why = errLater
		if !errors.Is(err, mailbox.ErrNoSpace) && !errors.Is(err, context.Canceled) {
			g.cfg.Log.WarnContext(r.Context(), "a push message was not stored", "error", err)
		}
	}
	g.refuse(w, why)
}

// send stores a message for a device.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("the database did not answer in %s", patience))
	defer cancel()
	body, err := readBody(r)
	if err != nil {
		return err
	}
	ch, err := g.channel(ctx, r.PathValue("version"), r.PathValue("token"))
	if err != nil {
		return err
	}
	head, err := readHeaders(r.Header, len(body))
	if err != nil {
		return err
	}
	origins := g.origins(r)
	key, err := g.sender(r.Header, origins)
	if err == nil && ch.Sender != "" && key != ch.Sender {
		err = badSender("the subscription is for another key")
		if key == "" {
			err = badSender("Authorization is missing: the subscription is for one key alone")
		}
	}
	if err != nil {
		return err
	}
	id, err := g.store(ctx, ch, &head, body)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", origins[0]+"/m/"+id)
	h.Set("TTL", strconv.FormatInt(int64(head.ttl/time.Second), 10))
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
	return nil
}

// channel finds the channel of a push endpoint. A token that could be one and is not known was one.
func (g *Gateway) channel(ctx context.Context, version, token string) (*channeldb.Channel, error) {
	if len(token) != channeldb.TokenLength || !isBase64URL(token) || version != "v1" && version != "v2" {
		return nil, errNoEndpoint
	}
	ch, err := g.cfg.Channels.Find(ctx, token)
	switch {
	case err != nil:
		return nil, err
	case ch == nil:
		return nil, errGone
	case endpointPath(ch.Sender) != "/wpush/"+version+"/":
		return nil, errNoEndpoint
	}
	return ch, nil
}

// readBody reads a message within its limit.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case len(body) > maxBody:
		return nil, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	case err != nil:
		return nil, context.Canceled // the sender is gone
	}
	return body, nil
}

// idLength is the length of a message's id: 128 random bits, since who knows the id may delete the message.
const idLength = 22

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// store stores a message. One with TTL 0 is only for a device that is connected: the first write ends it.
func (g *Gateway) store(ctx context.Context, ch *channeldb.Channel, s *sent, body []byte) (id string, err error) {
	d := &notification.Draft{
		To: []string{ch.Device}, ID: newID(), Fresh: true, TTL: s.ttl, Priority: s.priority,
		Content: notification.Content{Category: category, Title: ch.Name, Body: s.headers, Data: body, ContentType: "application/octet-stream"},
	}
	if s.topic != "" {
		d.CollapseKey = ch.Name + ":" + s.topic
	}
	if s.ttl == 0 {
		online, err := g.cfg.Mailbox.Online(ctx, App, ch.Device)
		if err == nil && len(online) == 0 {
			g.counts.dropped.Inc()
			return d.ID, nil
		}
		d.TTL, d.Ack = atOnce, notification.AckNone // where presence is not known, the device may be connected
	}
	res := g.cfg.Publisher.Publish(ctx, App, []*notification.Draft{d})[0]
	if err = res.Err; err == nil {
		err = res.Copies[0].Err
	}
	if err == nil {
		g.counts.stored.Inc()
	}
	return d.ID, err
}

// origins are those under which senders reach the server; the first is that of new push endpoints.
func (g *Gateway) origins(r *http.Request) []string {
	if len(g.cfg.Origins) > 0 {
		return g.cfg.Origins
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return []string{scheme + strings.ToLower(r.Host)}
}

// ownOrigin is the origin of the push endpoints that a device gets.
func (g *Gateway) ownOrigin(r *http.Request) string { return g.origins(r)[0] }
