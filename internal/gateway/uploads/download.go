package uploads

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Path is the path of references to bodies in a folder.
const Path = "/v1/uploads/"

// URL implements Place.
func (f *Folder) URL(app, id string, until time.Time) (string, error) {
	expires := strconv.FormatInt(until.Unix(), 10)
	signature, err := f.sign(app, id, expires)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(f.cfg.Base, "/") + Path + app + "/" + id + "?" +
		url.Values{"expires": {expires}, "signature": {signature}}.Encode(), nil
}

func (f *Folder) sign(app, id, expires string) (string, error) {
	key, err := f.secret()
	if err != nil {
		return "", err
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s\n%s\n%s", app, id, expires)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Route is the call with which a worker fetches a body. The signature alone gives the right.
func (f *Folder) Route(now func() time.Time) call.Route {
	return call.Route{Pattern: "GET " + Path + "{app}/{id}", Stream: true, Serve: func(c *call.Call) error {
		q, err := c.Params("expires", "signature")
		if err != nil {
			return err
		}
		app, id, expires := c.R.PathValue("app"), c.R.PathValue("id"), q.Get("expires")
		signature, err := f.sign(app, id, expires)
		if err != nil {
			return err
		}
		at, err := strconv.ParseInt(expires, 10, 64)
		if err != nil || !hmac.Equal([]byte(q.Get("signature")), []byte(signature)) {
			return problem.Forbidden.With("the reference to this upload is not one of this server's")
		}
		if now().After(time.Unix(at, 0)) {
			return problem.Forbidden.With("the reference to this upload is no longer valid")
		}
		return f.serve(c, app, id)
	}}
}

func (f *Folder) serve(c *call.Call, app, id string) error {
	if err := notification.CheckName("app", app); err != nil { // a signed name is a valid one; this keeps paths within the folder whatever signed it
		return err
	}
	body, err := os.Open(filepath.Join(f.cfg.Dir, app, filepath.Base(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return problem.NotFound.With("the upload is deleted")
	}
	if err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	defer body.Close()
	st, err := body.Stat()
	if err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream") // whatever the caller says of it: a browser must not show it
	h.Set("Content-Disposition", "attachment")
	_ = http.NewResponseController(c.W).SetWriteDeadline(time.Now().Add(downloadTime)) // a test's writer has none
	c.Status = http.StatusOK
	http.ServeContent(c.W, c.R, "", st.ModTime(), body)
	return nil
}
