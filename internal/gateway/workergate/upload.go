package workergate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/server/problem"
)

// Uploads keeps bodies that are too large for a request.
type Uploads interface {
	// Put keeps a body. It returns the headers that give a worker the reference, and the function that deletes the body. size is -1 if it is
	// unknown.
	Put(ctx context.Context, app string, size int64, body io.Reader) (headers map[string][]string, drop func(), err error)
	// Refused counts a body that is refused before it is read.
	Refused()
}

const (
	uploadTime = time.Hour // limits an upload as a whole; bodyTime limits each wait for more of it
	uploadCost = 6 << 20   // bytes of memory that an upload may take
)

// uploaded keeps the body of a call if it is too large for a request and its service wants that. begun is what was read of the body, and
// err the error of reading it. drop is nil if the body is not kept. A body for a subject that no worker serves is refused unread.
func (g *Gate) uploaded(w http.ResponseWriter, r *http.Request, who *caller, subject string, begun []byte, err error) (body []byte, headers map[string][]string, drop func(), _ error) {
	if !errors.Is(err, errTooLarge) || who.service.Upload != access.UploadStore || g.cfg.Uploads == nil {
		return begun, nil, nil, err
	}
	if err := g.cfg.Asker.Serves(who.app, subject); err != nil {
		g.cfg.Uploads.Refused()
		return nil, nil, nil, err
	}
	if !g.shares.Try(who.app, uploadCost) {
		g.cfg.Uploads.Refused()
		return nil, nil, nil, problem.Busy.With("as many uploads are under way as the gateway may carry").After(time.Second)
	}
	defer g.shares.Give(who.app, uploadCost)
	in := &patient{from: r.Body, rc: http.NewResponseController(w), until: time.Now().Add(uploadTime)}
	headers, drop, err = g.cfg.Uploads.Put(r.Context(), who.app, r.ContentLength, io.MultiReader(bytes.NewReader(begun), in))
	return nil, headers, drop, err
}

// patient reads a body whose sender may take bodyTime for each part.
type patient struct {
	from  io.Reader
	rc    *http.ResponseController
	until time.Time
}

func (p *patient) Read(b []byte) (int, error) {
	at := time.Now().Add(bodyTime)
	if at.After(p.until) {
		at = p.until
	}
	_ = p.rc.SetReadDeadline(at) // a test's writer has none
	return p.from.Read(b)
}

// mayHaveIt reports whether a worker may have got a request that failed.
func mayHaveIt(err error) bool {
	return errors.Is(err, request.ErrNoAnswer) || errors.Is(err, request.ErrWorkerGone) || errors.Is(err, context.Canceled)
}
