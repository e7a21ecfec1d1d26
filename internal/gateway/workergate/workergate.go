// Package workergate is an HTTP gateway to workers: it sends a call of /gw/{service}/{path…} as a request to one of the workers that serve
// its subject, and returns the status, headers and body of the worker's answer. Workers need no address and no open port.
package workergate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/server/problem"
)

// Prefix is the path of the gateway on the HTTP listener.
const Prefix = httphead.GatewayPath

// Asker asks workers.
type Asker interface {
	Ask(ctx context.Context, app string, r *request.Request) (*request.Answer, error)
	// Serves returns nil if a worker serves a subject now, and otherwise the error that Ask would return.
	Serves(app, subject string) error
}

// Access says who may call.
type Access interface {
	access.Access
	// Service returns the settings of a service of an app.
	Service(app, name string) (s access.Service, set bool)
	// OnlyApp is the app of calls that name none.
	OnlyApp() string
}

// Config are the parts of a Gate.
type Config struct {
	Asker   Asker
	Access  Access
	Log     *slog.Logger
	Uploads Uploads        // nil: none are kept
	Tracer  Tracer         // nil: nothing is traced
	Place   httphead.Place // the origin of its answers
	Memory  int64          // most bytes of requests and answers under way; 0: 128 MB
}

const (
	memory    = 128 << 20
	callCost  = 16 << 10 // bytes that a call takes in addition to its bodies
	bodyTime  = 30 * time.Second
	writeTime = 30 * time.Second
)

// Gate is the handler of all paths below Prefix.
type Gate struct {
	cfg    Config
	shares *fair.Shares // bytes under way
}

// New makes a Gate.
func New(cfg Config) *Gate {
	if cfg.Memory == 0 {
		cfg.Memory = memory
	}
	return &Gate{cfg: cfg, shares: fair.NewShares(cfg.Memory)}
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httphead.Protect(w.Header(), g.cfg.Place)
	service, rest, err := g.called(r)
	if err == nil {
		err = g.traced(w, r, service, rest, access.Claim{
			App: r.URL.Query().Get("app"), Token: access.Bearer(r.Header), CertURI: access.CertURI(r.TLS), Origin: r.Header.Get("Origin"), Host: r.Host,
		})
	}
	if err != nil {
		g.fail(w, r, err)
	}
}

// called returns the service that a request calls and the path behind it.
func (g *Gate) called(r *http.Request) (service, path string, err error) {
	service, path, err = target(r)
	if err == nil && g.cfg.Place == httphead.Shared {
		err = checkPurpose(r.Header)
	}
	return service, path, err
}

// checkPurpose refuses to serve scripts of service workers, which would act for the origin as a whole (Service Workers, section 4.2).
func checkPurpose(h http.Header) error {
	if h.Get("Service-Worker") != "" || h.Get("Sec-Fetch-Dest") == "serviceworker" {
		return problem.Forbidden.With("a service worker would act for the whole origin, which the gateway shares with the web page; --gateway-url gives the gateway one of its own")
	}
	return nil
}

// target returns the service, and the path behind it, in the escaped form in which they were sent.
func target(r *http.Request) (service, path string, err error) {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), Prefix)
	service, path, _ = strings.Cut(rest, "/")
	if err := access.CheckService(service); err != nil {
		return "", "", err
	}
	return service, "/" + path, nil
}

func (g *Gate) call(w http.ResponseWriter, r *http.Request, service, path string, claimed access.Claim) error {
	who, err := g.caller(r, service, claimed)
	if err != nil {
		return err
	}
	taken, err := g.admit(r, who)
	if err != nil {
		return err
	}
	defer g.shares.Give(who.app, taken)
	subject := Subject(side(who.service, service, r.Header.Get(splitKey)), r.Method, path)
	body, err := readBody(w, r)
	body, uploaded, drop, err := g.uploaded(w, r, who, subject, body, err)
	if err != nil {
		return err
	}
	q := asked(r, who, subject, path, body)
	maps.Copy(q.Header, uploaded)
	rc := http.NewResponseController(w) // a test's writer supports no deadlines
	_ = rc.SetReadDeadline(time.Time{}) // the read deadline would end the call as if its caller had gone
	_ = rc.SetWriteDeadline(time.Now().Add(request.MaxTimeout + writeTime))
	a, err := g.cfg.Asker.Ask(r.Context(), who.app, q)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTime))
	if err != nil {
		if drop != nil && !mayHaveIt(err) {
			drop()
		}
		return err
	}
	return g.pass(w, r, a)
}

// admit takes the memory of a call, if its head and length are allowed and there is some left.
func (g *Gate) admit(r *http.Request, who *caller) (taken int64, err error) {
	if err := checkType(r.Header.Get("Content-Type")); err != nil {
		return 0, err
	}
	if size := headerBytes(r.Header); size > frame.MaxHeaderBytes {
		return 0, problem.HeadersTooLarge.Withf("the headers have %d bytes; at most %d are allowed", size, frame.MaxHeaderBytes)
	}
	taken = callCost
	if n := r.ContentLength; n < 0 {
		taken += frame.MaxBody
	} else {
		taken += min(n, frame.MaxBody)
	}
	if !g.shares.Try(who.app, taken) {
		return 0, problem.Busy.With("as many calls are under way as the gateway may carry").After(time.Second)
	}
	return taken, nil
}

// asked is the request of a call.
func asked(r *http.Request, who *caller, subject, path string, body []byte) *request.Request {
	return &request.Request{
		Subject: subject, Method: r.Method, Path: path, Query: r.URL.RawQuery, Header: passOn(r.Header, who),
		ContentType: r.Header.Get("Content-Type"), Data: body, Timeout: who.service.Timeout,
	}
}

// pass sends a worker's answer, if it may be passed on.
func (g *Gate) pass(w http.ResponseWriter, r *http.Request, a *request.Answer) error {
	if !httphead.Displayable(a.ContentType) {
		return problem.BadAnswer.With("the worker's answer is of the type multipart/x-mixed-replace, which the gateway does not pass on")
	}
	g.writeAnswer(w, r.Method == http.MethodHead, a)
	return nil
}

// readBody reads a body of at most frame.MaxBody bytes. With errTooLarge it returns what it has read of a longer one.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > frame.MaxBody {
		return nil, errTooLarge
	}
	if r.Body == nil || r.ContentLength == 0 {
		return nil, nil
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a test's writer has none
	var b []byte
	var err error
	if n := r.ContentLength; n > 0 {
		b = make([]byte, n)
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(io.LimitReader(r.Body, frame.MaxBody+1))
	}
	switch {
	case err != nil:
		return nil, problem.BodyIncomplete.New()
	case len(b) > frame.MaxBody:
		return b, errTooLarge
	}
	return b, nil
}

var errTooLarge = problem.TooLarge.Withf("a request through the gateway has at most %d bytes", frame.MaxBody)

// writeAnswer sends a worker's answer. bodiless: the call was HEAD; the answer has the length that GET would return, and no body.
func (g *Gate) writeAnswer(w http.ResponseWriter, bodiless bool, a *request.Answer) {
	h := w.Header()
	httphead.FromWorker(h, a.Header, g.cfg.Place)
	if a.ContentType != "" {
		h["Content-Type"] = []string{a.ContentType}
	} else {
		h["Content-Type"] = nil // net/http would guess one
	}
	body := a.Data
	if !httphead.HasBody(a.Status) {
		body = nil
	}
	switch {
	case a.Status == http.StatusNoContent || a.Status == http.StatusNotModified: // these say no length
	case bodiless && len(body) == 0:
		if length := a.Header["Content-Length"]; len(length) == 1 && isLength(length[0]) {
			h["Content-Length"] = length
		}
	default:
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(a.Status)
	if !bodiless && len(body) > 0 {
		_, _ = w.Write(body) // an error means that the caller is gone
	}
}

func isLength(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

func (g *Gate) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		gateway.FailGone(w)
		return
	}
	g.logInternal(r.Context(), err)
	gateway.Fail(w, err)
}

func (g *Gate) logInternal(ctx context.Context, err error) {
	if p := problem.From(err); p.Status == http.StatusInternalServerError {
		g.cfg.Log.ErrorContext(ctx, "gateway call failed", "error", err)
	}
}

// caller holds a call's client and the settings of the service.
type caller struct {
	app, key, recipient, addr string
	service                   access.Service
}

// caller authenticates the client of a call and checks its rights.
func (g *Gate) caller(r *http.Request, service string, claimed access.Claim) (*caller, error) {
	who := &caller{addr: remote(r)}
	if claimed.Token != "" {
		if known, err := g.keyed(r, who, service, claimed.Token); known {
			return who, err
		}
	}
	if claimed.Token == "" && claimed.CertURI == "" {
		return g.stranger(who, claimed.App, service)
	}
	client, err := g.cfg.Access.Client(r.Context(), claimed)
	if err != nil {
		return nil, err
	}
	who.app, who.recipient = client.App, client.Recipient
	if who.service, _ = g.cfg.Access.Service(who.app, service); who.service.Access == access.ByKey {
		return nil, problem.Forbidden.With("this service is for back ends: call it with a key that has role publish")
	}
	return who, nil
}

// keyed checks the rights of a caller with an API key; false: the token is none. It does not wait for anything.
func (g *Gate) keyed(r *http.Request, who *caller, service, token string) (known bool, err error) {
	p, err := g.cfg.Access.Key(r.Context(), token)
	if err != nil {
		return false, nil // it may be a token of a client
	}
	who.app, who.key = p.App, p.Key
	who.service, _ = g.cfg.Access.Service(who.app, service)
	if who.service.Access == access.ByKey && !p.Rights().CanRequest(Subject(service, r.Method, "/")) {
		return true, problem.Forbidden.With("calling this service needs a key with role publish")
	}
	return true, nil
}

// stranger accepts a caller without credentials if anyone may call the service.
func (g *Gate) stranger(who *caller, app, service string) (*caller, error) {
	if app == "" {
		app = g.cfg.Access.OnlyApp()
	}
	who.app = app
	if who.service, _ = g.cfg.Access.Service(app, service); who.service.Access != access.ByAnyone {
		return nil, access.ErrUnauthenticated
	}
	return who, nil
}

func remote(r *http.Request) string {
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return addr.Addr().Unmap().String()
	}
	return ""
}

func headerBytes(h http.Header) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

func checkType(s string) error {
	if len(s) > 128 || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
		return problem.BadInput.With("Content-Type must be a media type of at most 128 ASCII characters").In("Content-Type")
	}
	return nil
}

// passOn returns the headers for the worker: values that the gateway has verified replace a caller's claims about itself.
func passOn(h http.Header, who *caller) frame.Headers {
	out := frame.Headers(httphead.FromCaller(h, who.service.Cookies))
	for _, f := range [...]struct{ name, value string }{
		{"Godwit-Key", who.key}, {"Godwit-Recipient", who.recipient}, {"Godwit-Client-Addr", who.addr},
	} {
		if f.value != "" {
			out[f.name] = []string{f.value}
		}
	}
	return out
}
