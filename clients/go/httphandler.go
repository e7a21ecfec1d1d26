package godwit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
)

// HTTP returns a RequestHandler that answers calls from the gateway with an ordinary HTTP handler. Its paths begin after the service's
// name: GET /gw/orders/17 is GET /17. The gateway's data about the caller is in the headers Godwit-Key, Godwit-Recipient and
// Godwit-Client-Addr. A panic of the handler ends only its call, as in net/http: the caller gets status 500, and the default logger of
// log/slog gets the panic with its stack, unless it is http.ErrAbortHandler.
func HTTP(h http.Handler) RequestHandler {
	return func(ctx context.Context, r *Request) (*Answer, error) {
		method := r.Method
		if method == "" {
			method = http.MethodPost // it was asked without HTTP
		}
		target := r.Path
		if target == "" {
			target = "/"
		}
		if r.Query != "" {
			target += "?" + r.Query
		}
		u, err := url.ParseRequestURI(target) // a path may begin with two slashes
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, method, "", http.NoBody)
		if err != nil {
			return nil, err
		}
		req.URL, req.RequestURI, req.ContentLength = u, target, int64(len(r.Data))
		req.RemoteAddr = r.Header.Get("Godwit-Client-Addr") + ":0"
		req.Header = r.Header
		if len(r.Data) > 0 {
			req.Body = io.NopCloser(bytes.NewReader(r.Data))
		}
		if r.ContentType != "" {
			req.Header.Set("Content-Type", r.ContentType)
		}
		w := &recorder{header: make(http.Header)}
		if err := contained(h, w, req); err != nil {
			return nil, err
		}
		a := &Answer{Status: w.status, Header: w.header, Data: w.body.Bytes(), ContentType: w.header.Get("Content-Type")}
		if a.ContentType == "" && len(a.Data) > 0 {
			a.ContentType = http.DetectContentType(a.Data) // as net/http does
		}
		w.header.Del("Content-Type")
		return a, nil
	}
}

var errPanicked = errors.New("internal error; the worker's log says why")

// contained calls a handler. A panic in it becomes an error that does not show its value.
func contained(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err = errPanicked; v != http.ErrAbortHandler { //nolint:errorlint // net/http compares the value, too
			//nolint:sloglint // net/http, whose handler it is, also uses the default logger
			slog.ErrorContext(r.Context(), "HTTP handler panicked", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// recorder keeps a handler's answer.
type recorder struct {
	header http.Header
	body   bytes.Buffer
	status int
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}
