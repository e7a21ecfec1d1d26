package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/app/sending"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/watch"
	"godwit.dev/godwit/internal/store"
)

// folder is a data folder that no server holds, opened for --local. It serves the part of the API that is about apps and their settings, so
// that commands speak one language to servers and folders.
type folder struct {
	registry *access.Registry
	handler  http.Handler
	closers  []func() error // in the order of opening
}

// openFolder opens the folder of the settings, or the nodes' database. The folder stays locked until the command is done.
func (p *program) openFolder(ctx context.Context, c *config.Config, create bool) (f *folder, err error) {
	f = &folder{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	isNew := emptyFolder(c.Data)
	if !create && isNew && c.Postgres == "" {
		return f, noApps(c.Data)
	}
	lock, err := datadir.Acquire(c.Data)
	if err != nil {
		return f, err
	}
	f.closers = append(f.closers, lock.Release)
	log := slog.New(slog.DiscardHandler)
	apps, closeApps, err := store.OpenApps(ctx, store.Config{Data: c.Data, Postgres: c.Postgres}, create)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return f, noApps(c.Data)
	}
	if err != nil {
		return f, err
	}
	f.closers = append(f.closers, closeApps)
	if create && isNew && c.Postgres == "" {
		p.sayNewFolder(c.Data)
	}
	if f.registry, err = access.NewRegistry(ctx, apps.Access, access.Config{Targets: c.Targets()}, log); err != nil {
		return f, err
	}
	f.closers = append(f.closers, func() error { f.registry.Close(); return nil })
	f.handler, err = p.settingsAPI(ctx, c, &apps, f, log)
	return f, err
}

func noApps(data string) error {
	return withHint(fmt.Errorf("there are no apps in %s", data), "name the folder with --data, or make an app in it with godwit app create NAME --local")
}

// settingsAPI makes the part of the API that is about apps and their settings.
func (p *program) settingsAPI(ctx context.Context, c *config.Config, apps *store.Apps, f *folder, log *slog.Logger) (http.Handler, error) {
	kinds := sending.Kinds(channel.Options{Targets: c.Targets()}, p.modules)
	kinds[push.Live] = live.Kind{}
	channels, err := channel.New(ctx, apps.Channels, kinds, log)
	if err != nil {
		return nil, err
	}
	f.closers = append(f.closers, func() error { channels.Close(); return nil })
	sinks, err := sink.New(ctx, sink.Config{Store: apps.Sinks, Kinds: feeds.SinkKinds(p.modules), Log: log})
	if err != nil {
		return nil, err
	}
	sources, err := source.New(ctx, source.Config{Store: apps.Sources, Records: noRecords{}, Kinds: feeds.SourceKinds(p.modules), Log: log})
	if err != nil {
		return nil, err
	}
	api := operator.New(operator.Parts{
		Management: operator.Management{Keys: f.registry, Apps: f.registry, OperatorFile: filepath.Join(c.Data, access.OperatorFile)}, Settings: f.registry, Gateway: f.registry, Channels: channels, Feeds: operator.Feeds{Sinks: sinks, Sources: sources}, Log: log,
	})
	return httpapi.New(httpapi.Config{
		Routes: api.SettingsRoutes(), Access: f.registry, Operators: holder{f.registry}, Log: log, Registry: prometheus.NewRegistry(), Watch: &watch.Server{Watch: watch.New()},
	}), nil
}

// holder admits the holder of the folder, who needs no key.
type holder struct{ *access.Registry }

// holderKey is what the command presents to the API of its own process.
const holderKey = "gwo_local_folder"

// Operator implements httpapi.Operators. The id is empty, so that the holder may replace any operator key.
func (holder) Operator(secret string) (id string, ok bool) { return "", secret == holderKey }

func (f *folder) close() error {
	var errs []error
	for i := len(f.closers) - 1; i >= 0; i-- {
		errs = append(errs, f.closers[i]())
	}
	f.closers = nil
	return errors.Join(errs...)
}

// RoundTrip implements http.RoundTripper: requests are answered in this process.
func (f *folder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &recorded{header: http.Header{}, status: http.StatusOK}
	f.handler.ServeHTTP(w, r)
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorded is an answer within this process.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorded) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorded) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorded) Write(b []byte) (int, error) { return w.body.Write(b) }

// localFlags adds --local, and the flags of a folder's settings that only it needs.
func (p *program) localFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.local, "local", false, "write to the data folder itself, which no server may be using: for the first steps")
	config.AddFlags(cmd.Flags(), "postgres", "allow_targets", "allow_private_urls")
}
