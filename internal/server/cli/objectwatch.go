package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

type objectWatchFlags struct {
	sessionFlags
	recipient, device, state string
	count                    int
}

func (p *program) objectWatchCommand() *cobra.Command {
	var f objectWatchFlags
	cmd := &cobra.Command{
		Use:   "watch GROUP/OBJECT...",
		Short: "Register for objects and print their versions as they come",
		Long: `Register for objects and print their versions as they come: the latest at once, then every change, unless several
happen faster than they can be told. With a token in GODWIT_TOKEN or --token-file it does so as its recipient, else
with an API key of role read, as an observer. Registrations end with the command, unless --device names one: then the
server keeps them and their acknowledgements, and the next watch of that device prints what has changed meanwhile.`,
		ValidArgsFunction: p.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := objectNames(cmd, args)
			if err != nil {
				return err
			}
			return p.objectWatch(cmd.Context(), names, &f)
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.recipient, "recipient", "", "recipient to be, where no token says it (default: a new one)")
	s.StringVar(&f.device, "device", "", "name of this device")
	s.StringVar(&f.state, "state", "", "file that keeps registrations and versions between runs")
	f.add(s)
	s.IntVarP(&f.count, "count", "n", 0, "end after this many versions")
	return cmd
}

// observer reports whether the watch uses an API key: it then has no token and no recipient.
func (f *objectWatchFlags) observer(token string) bool {
	return token == "" && f.device == "" && f.recipient == ""
}

func (p *program) objectWatch(ctx context.Context, names []objectName, f *objectWatchFlags) error {
	token, err := p.token(f.tokenFile)
	if err != nil {
		return err
	}
	var listen []godwit.ListenOption
	if f.observer(token) {
		listen = append(listen, godwit.Peek())
	}
	if token == "" && f.recipient == "" {
		f.recipient = "watch-" + rand.Text()[:8]
	}
	return p.connected(ctx, token, &f.sessionFlags, func(ctx context.Context, c *godwit.Client) error {
		return p.watchWith(ctx, c, names, f, listen)
	})
}

func (p *program) watchWith(parent context.Context, c *godwit.Client, names []objectName, f *objectWatchFlags, opts []godwit.ListenOption) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	w := &watcher{p: p, want: f.count, stop: stop}
	state := []godwit.ObjectsOption{godwit.OnRegistration(w.changed)}
	if f.state != "" {
		state = append(state, godwit.StateFile(f.state))
	}
	objects, err := godwit.NewObjects(names[0].group, state...)
	if err != nil {
		return err
	}
	if err := w.register(objects, names); err != nil {
		return err
	}
	session := &link{p: p, stop: stop}
	opts = append(append(opts, godwit.Follow(objects)), session.options()...)
	if f.device != "" {
		opts = append(opts, godwit.Device(f.device))
	}
	err = c.Listen(ctx, f.recipient, nil, opts...)
	err = session.failure(w.err, err)
	if err == nil && f.count > 0 && w.seen < f.count && errors.Is(parent.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%d of %d versions came in %s", w.seen, f.count, f.timeout)
	}
	return err
}

// watcher prints versions, one at a time.
type watcher struct {
	p    *program
	want int
	stop func()

	mu   sync.Mutex
	seen int
	err  error
}

// register replaces the set of registrations with the given objects.
func (w *watcher) register(objects *godwit.Objects, names []objectName) error {
	wanted := make(map[string]bool, len(names))
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = n.String()
		wanted[all[i]] = true
	}
	var gone []string
	for _, s := range objects.List() {
		if name := s.Group + "/" + s.Object; !wanted[name] {
			gone = append(gone, name)
		}
	}
	return errors.Join(objects.Register(w.handle, all...), objects.Unregister(gone...))
}

func (w *watcher) handle(_ context.Context, s *godwit.Signal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.want > 0 && w.seen >= w.want {
		return errEnough
	}
	if err := w.p.printSignal(s); err != nil {
		w.err = err
		w.stop()
		return err // not printed, not acknowledged
	}
	if s.Unknown && s.Version == 0 {
		return nil // the object was never put: there is no version yet
	}
	if w.seen++; w.seen == w.want {
		w.stop()
	}
	return nil
}

// changed ends the watch if the object is refused, and announces another try after any other error.
func (w *watcher) changed(s godwit.ObjectStatus) {
	if s.Err == nil {
		return
	}
	if s.Status != godwit.Refused {
		w.p.note("%v; trying again", s.Err)
		return
	}
	w.mu.Lock()
	w.err = s.Err
	w.mu.Unlock()
	w.stop()
}

func (p *program) printSignal(s *godwit.Signal) error {
	if p.json {
		v := map[string]any{"group": s.Group, "object": s.Object, "version": s.Version, "unknown": s.Unknown}
		putPayload(v, s.Payload, s.ContentType)
		return p.line(v)
	}
	name := objectName{s.Group, s.Object}
	_, err := fmt.Fprintf(p.stdout, "%s %s %s%s\n", time.Now().Format(time.TimeOnly), p.paint(bold, clean(name.String())),
		versionText(s.Version, s.Unknown), p.paint(faint, payloadText(s.Payload)))
	return err
}
