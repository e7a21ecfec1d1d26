package godwit

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// handshakeTimeout limits dialling, hello and welcome together.
const handshakeTimeout = 30 * time.Second

// byePatience is how long the server may take to close the connection after its goodbye.
const byePatience = 2 * time.Second

// session is one connection from hello to end.
type session struct {
	l     *listener
	c     conn
	token Token
	beat  time.Duration
	last  atomic.Int64 // time of the last received frame: nanoseconds since start
	start time.Time
	extra chan *clientFrame // hello frames with a new token

	sending sync.Mutex // held to send, and by who counts pings
	pings   int        // sent
	pongs   int        // received, by the reader

	serves inEffect
}

// session runs one session. It returns the reason why it ended, and whether the server had sent its welcome. When closing ends, it sends
// waiting frames and closes in order; when conns ends, it closes at once.
func (l *listener) session(work, conns, closing context.Context) (welcomed bool, err error) {
	ctx, cancel := context.WithCancelCause(conns)
	defer cancel(nil)
	s := &session{l: l, start: time.Now(), extra: make(chan *clientFrame, 1)}

	timeout := time.AfterFunc(handshakeTimeout, func() { cancel(fmt.Errorf("server did not welcome in %s", handshakeTimeout)) })
	unwatch := context.AfterFunc(closing, func() { cancel(context.Canceled) }) // before the welcome there is nothing to flush
	w, err := s.open(ctx)
	timeout.Stop()
	early := !unwatch()
	if s.c != nil {
		defer s.c.abort()
	}
	if err != nil || early {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return false, err
	}
	if o := l.opts.objects; o != nil {
		o.update(func() { o.regs.welcomed(w.Digest, time.Now()) })
		defer o.update(o.regs.lost)
	}
	if t := l.opts.topics; t != nil {
		t.welcomed()
		defer t.lost()
	}
	l.inboxChanged(w.Inbox)
	if l.opts.connected != nil {
		l.opts.connected(*w)
	}
	if f := l.serving(); f != nil {
		for _, f := range []*clientFrame{f, s.ping()} { // the pong to the first ping confirms that the frame is in effect
			if err := s.sendNow(f); err != nil {
				return true, err
			}
		}
	}
	var sides sync.WaitGroup
	sides.Go(func() {
		if err := s.write(ctx, closing); err != nil {
			cancel(err)
			s.c.abort()
		}
	})
	sides.Go(func() { s.renew(ctx) })
	err = s.read(ctx, work, cancel)
	s.serves.stop()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	sides.Wait()
	return true, err
}

// open connects, sends the hello and waits for the welcome.
func (s *session) open(ctx context.Context) (*Welcome, error) {
	l := s.l
	var err error
	switch {
	case l.opts.peek:
		s.token = Token{Value: l.client.key}
	case l.client.token == nil && l.client.key != "" && len(l.opts.subjects) > 0:
		s.token = Token{Value: l.client.key}
	case l.client.token != nil:
		if s.token, err = l.client.token(ctx); err != nil {
			return nil, fmt.Errorf("get token: %w", err)
		}
		l.refused = s.token.Value // if it is; see permanent
	}
	if s.c, err = l.dial(ctx); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, s.c.abort) // ctx ends with the session
	// If this fails, the server has already ended the session; its goodbye contains the reason.
	_ = s.c.send(s.hello())
	for {
		f, err := s.c.recv()
		switch {
		case err != nil:
			return nil, err
		case f.Welcome != nil:
			s.beat = max(f.Welcome.Heartbeat, time.Second)
			s.note()
			return f.Welcome, nil
		case f.Goodbye != nil:
			return nil, &goodbyeError{*f.Goodbye}
		case f.Err != nil:
			return nil, helloError(f.Err)
		case f.Unread != nil:
			l.report(f.Unread)
		}
	}
}

func (s *session) hello() *clientFrame {
	l := s.l
	h := &hello{
		App: l.client.app, Token: s.token.Value, Recipient: l.recipient, Group: l.opts.group, Device: l.opts.device,
		Window: l.opts.window, Heartbeat: wireTime(l.opts.heartbeat), Observe: l.opts.observe,
	}
	if l.opts.held != nil {
		h.Held = l.opts.held()
	}
	if l.opts.objects != nil {
		h.Digest = l.opts.objects.digest()
	}
	return &clientFrame{Hello: h}
}

func (s *session) note() { s.last.Store(int64(time.Since(s.start))) }

func (s *session) silence() time.Duration { return time.Since(s.start) - time.Duration(s.last.Load()) }

// handle handles a frame that is no request. An error ends the connection.
func (s *session) handle(work context.Context, f *serverFrame, cancel context.CancelCauseFunc) error {
	switch {
	case f.Notification != nil:
		s.l.take(work, f.Notification)
	case f.Recall != nil:
		s.l.recall(f.Recall)
	case f.Inbox != nil:
		s.l.inboxChanged(f.Inbox)
	case f.Goodbye != nil:
		// The server closes next; reading until then lets the connection end in order. The goodbye is the session's error.
		err := &goodbyeError{*f.Goodbye}
		late := time.AfterFunc(byePatience, func() { cancel(err) })
		defer late.Stop()
		for {
			if _, end := s.c.recv(); end != nil {
				return err
			}
		}
	case f.Unread != nil:
		s.l.unread(f.Unread)
	default:
		s.other(f)
	}
	return nil
}

// other handles frames about topics or objects, and the server's errors.
func (s *session) other(f *serverFrame) {
	t, o := s.l.opts.topics, s.l.opts.objects
	if f.Pong != nil {
		if s.pongs++; t != nil {
			t.pong(s.pongs)
		}
		if told := s.l.opts.inEffect; s.serves.pong(s.pongs) && told != nil {
			told()
		}
	}
	switch {
	case f.Message != nil:
		if t != nil {
			t.message(f.Message)
		}
	case f.Err != nil:
		if f.Err.Field == "subjects" {
			s.refused(f.Err)
		}
		if t == nil || !t.refuse(f.Err) {
			s.l.report(f.Err)
		}
	case o != nil:
		o.frame(f)
	}
}

// ping returns a ping with the digest of the wanted objects.
func (s *session) ping() *clientFrame {
	if o := s.l.opts.objects; o != nil {
		return o.ping()
	}
	return &clientFrame{Ping: &ping{}}
}

// sendNow sends one frame.
func (s *session) sendNow(f *clientFrame) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.send(f)
}

// send sends frames. The caller holds s.sending.
func (s *session) send(frames ...*clientFrame) error {
	for _, f := range frames {
		switch {
		case f.Ping != nil:
			s.pings++
		case f.Serve != nil:
			s.serves.mark.Store(int64(s.pings + 1))
		}
	}
	return s.c.send(frames...)
}

// write sends acknowledgements, registrations and pings until ctx ends, or until closing ends, when it flushes.
func (s *session) write(ctx, closing context.Context) error {
	look := time.NewTicker(s.beat / 2)
	defer look.Stop()
	again := time.NewTimer(s.beat)
	defer again.Stop()
	beats := 0
	pinged := false
	for {
		if err := s.flush(ctx, again, false); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-closing.Done():
			if err := s.flush(ctx, again, true); err != nil {
				return err
			}
			s.c.finish()
			return nil
		case <-s.l.out.wake:
			runtime.Gosched() // lets handlers that end now share a write with the waiting frames
		case <-again.C:
		case f := <-s.extra:
			if err := s.sendNow(f); err != nil {
				return err
			}
		case <-look.C:
			beats++
			switch silence := s.silence(); {
			case silence >= 2*s.beat:
				return errSilent
			case s.l.opts.objects != nil && beats%2 == 0: // every heartbeat, that is two ticks, compares the registrations of both sides
				if err := s.sendNow(s.ping()); err != nil {
					return err
				}
			case silence < s.beat:
				pinged = false
			case !pinged:
				pinged = true
				if err := s.sendNow(s.ping()); err != nil {
					return err
				}
			}
		}
	}
}

// flush sends waiting frames; with last, also those that could wait longer. again is set to fire when there is more to send.
func (s *session) flush(ctx context.Context, again *time.Timer, last bool) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	frames, at := s.l.out.take(last)
	if o := s.l.opts.objects; o != nil {
		more, soon := o.take(last)
		frames = append(frames, more...)
		at = sooner(at, soon)
	}
	if t := s.l.opts.topics; t != nil {
		pings := s.pings
		for _, f := range frames {
			if f.Ping != nil {
				pings++
			}
		}
		more, soon := t.take(pings, s.ping)
		frames = append(frames, more...)
		at = sooner(at, soon)
	}
	if !at.IsZero() {
		again.Reset(time.Until(at))
	}
	if len(frames) == 0 {
		return nil
	}
	return s.send(frames...)
}

// sooner returns the earlier of two times, where zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// renew gets a new token before the present one expires, and sends it in another hello.
func (s *session) renew(ctx context.Context) {
	if s.l.client.token == nil || s.l.opts.peek {
		return
	}
	token := s.token
	wait := backoff{base: connectBase, most: connectMost}
	for {
		at := token.renewAt(time.Now())
		if at.IsZero() || sleep(ctx, time.Until(at)) != nil {
			return
		}
		next, err := s.l.client.token(ctx)
		if err == nil && next.Value != token.Value {
			token, wait.n = next, 0
			h := &clientFrame{Hello: &hello{App: s.l.client.app, Token: next.Value, Recipient: s.l.recipient, Group: s.l.opts.group, Device: s.l.opts.device, Heartbeat: wireTime(s.l.opts.heartbeat)}}
			select {
			case s.extra <- h:
			case <-ctx.Done():
				return
			}
			continue
		}
		if sleep(ctx, wait.next()) != nil { // the source has none yet
			return
		}
	}
}
