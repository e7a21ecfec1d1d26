package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// partTime limits the time for one part of a file to reach or leave the browser.
const partTime = 30 * time.Second

// longest limits the time for a whole file.
const longest = time.Hour

// exportAudience sends the endpoints of a search as a file, without the secret parts of their addresses.
func (a *admin) exportAudience(v *visit) error { return a.export(v, false) }

// exportAddresses sends the same endpoints with their addresses: whoever has the file can import them elsewhere, and send to them.
func (a *admin) exportAddresses(v *visit) error { return a.export(v, true) }

func (a *admin) export(v *visit, addresses bool) error {
	// A file may take longer than a page. The deadline of each part ends the download of a browser that is gone or too slow.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(v.r.Context()), longest, fmt.Errorf("the file was not sent in %s", longest))
	defer cancel()
	app, q := v.person.App, v.r.URL.Query()
	f, err := a.filter(v, newSearch(q))
	if err != nil {
		return err
	}
	format := "ndjson"
	if q.Get("format") == "csv" {
		format = "csv"
	}
	encoder, err := a.Audience.Encoder(ctx, app, format, addresses)
	if err != nil {
		return err
	}
	a.Log.InfoContext(ctx, "endpoints exported on the web page", "app", app, "format", format, "addresses", addresses, "by", v.person.Name())
	h := v.w.Header()
	h.Set("Content-Type", encoder.ContentType)
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "endpoints-"+a.now().UTC().Format("2006-01-02")+"."+format))
	rc := http.NewResponseController(v.w)
	_ = rc.SetReadDeadline(time.Time{}) // a read deadline would end the file as if the browser had gone
	var gone error
	err = a.Audience.Export(ctx, app, f, encoder, func(part []byte) error {
		_ = rc.SetWriteDeadline(time.Now().Add(partTime)) // fails only for a test's writer, which has no deadlines
		if _, gone = v.w.Write(part); gone == nil {
			gone = rc.Flush()
		}
		return gone
	})
	if err == nil || gone != nil {
		return nil // the browser is gone, and nobody is there to be told
	}
	a.Log.WarnContext(ctx, "file cut off", "path", v.r.URL.Path, "app", app, "error", err)
	panic(http.ErrAbortHandler) // so that the browser reports a failed download instead of a whole file
}
