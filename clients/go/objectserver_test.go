package godwit

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// objectServer is a minimal server for registrations: sets by device, versions, acknowledgements, redelivery. It can lose all its state.
type objectServer struct {
	t       *testing.T
	mu      sync.Mutex
	set     map[objectKey]bool
	staged  []objectKey
	staging bool
	objects map[objectKey]Signal
	acked   map[objectKey]Version
	conn    *scripted
	delay   time.Duration // before an answer

	registers, resets, pings, acks int
	refuse                         map[string]*registrationFailed // by object
	group                          string
}

func newObjectServer(t *testing.T) *objectServer {
	return &objectServer{
		t: t, group: "g", set: map[objectKey]bool{}, objects: map[objectKey]Signal{}, acked: map[objectKey]Version{},
		refuse: map[string]*registrationFailed{},
	}
}

func (s *objectServer) digest() string {
	var d uint64
	for k := range s.set {
		d += k.hash()
	}
	return formatDigest(d)
}

// play serves one connection.
func (s *objectServer) play(_ int, c *scripted) error {
	s.mu.Lock()
	s.conn, s.staging, s.staged = c, false, nil
	c.in <- serverFrame{Welcome: &Welcome{Heartbeat: 30 * time.Second, Digest: s.digest(), Registrations: len(s.set)}}
	for k := range s.set {
		s.offer(k, false)
	}
	s.mu.Unlock()
	go func() {
		for {
			select {
			case f := <-c.seen:
				s.mu.Lock()
				if s.conn == c {
					s.take(&f)
				}
				s.mu.Unlock()
			case <-c.closed:
				for len(c.seen) > 0 { // what was sent before
					f := <-c.seen
					s.mu.Lock()
					s.take(&f)
					s.mu.Unlock()
				}
				return
			}
		}
	}()
	return nil
}

func (s *objectServer) send(f serverFrame) {
	c := s.conn
	if s.delay == 0 {
		c.in <- f
		return
	}
	time.AfterFunc(s.delay, func() {
		select {
		case c.in <- f:
		default:
		}
	})
}

func (s *objectServer) offer(k objectKey, always bool) {
	o, known := s.objects[k]
	if !known {
		o = Signal{Group: k.group, Object: k.object, Unknown: true}
	}
	if always || o.Unknown || o.Version > s.acked[k] {
		s.send(serverFrame{Object: &o})
	}
}

func (s *objectServer) take(f *clientFrame) {
	keys := func(r *register) (list []objectKey) {
		if len(r.Objects) > maxFrameObjects {
			s.t.Errorf("a frame of %d objects", len(r.Objects))
		}
		for _, o := range r.Objects {
			if bad := s.refuse[o]; bad != nil {
				s.send(serverFrame{RegistrationFailed: &registrationFailed{[]string{o}, r.Group, bad.Code, bad.Transient}})
				continue
			}
			k := objectKey{r.Group, o}
			if k.group == "" {
				k.group = s.group
			}
			list = append(list, k)
		}
		return list
	}
	switch {
	case f.Ping != nil:
		s.pings++
		s.send(serverFrame{Pong: &ping{s.digest()}})
	case f.ObjectAck != nil:
		k := objectKey{f.ObjectAck.Group, f.ObjectAck.Object}
		if k.group == "" {
			k.group = s.group
		}
		s.acks++
		s.acked[k] = max(s.acked[k], f.ObjectAck.Version)
	case f.Unregister != nil:
		for _, k := range keys(f.Unregister) {
			delete(s.set, k)
		}
		s.send(serverFrame{Registered: &registered{Digest: s.digest()}})
	case f.Register != nil && (f.Register.Reset || s.staging):
		s.staged, s.staging = append(s.staged, keys(f.Register)...), true
		if f.Register.More {
			return
		}
		s.resets++
		clear(s.set)
		for _, k := range s.staged {
			s.set[k] = true
		}
		s.staged, s.staging = nil, false
		s.send(serverFrame{Registered: &registered{Digest: s.digest()}})
		for k := range s.set {
			s.offer(k, true)
		}
	case f.Register != nil:
		s.registers++
		list := keys(f.Register)
		for _, k := range list {
			s.set[k] = true
		}
		s.send(serverFrame{Registered: &registered{Objects: f.Register.Objects, Group: f.Register.Group, Digest: s.digest()}})
		for _, k := range list {
			s.offer(k, true)
		}
	}
}

func (s *objectServer) put(object string, v Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := objectKey{s.group, object}
	if v > s.objects[k].Version {
		s.objects[k] = Signal{Group: k.group, Object: k.object, Version: v}
	}
	if s.set[k] && s.conn != nil {
		s.offer(k, false)
	}
}

// heard returns the newest acknowledged version of an object, and the number of all acknowledgements.
func (s *objectServer) heard(object string) (v Version, acks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked[objectKey{s.group, object}], s.acks
}

func (s *objectServer) has() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.set {
		names = append(names, k.object)
	}
	slices.Sort(names)
	return names
}

// follower is a program that follows objects and checks that versions only grow.
type follower struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[string]Version
	n    int
}

func (f *follower) handle(_ context.Context, s *Signal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if s.Unknown {
		return nil
	}
	if s.Version < f.seen[s.Object] {
		f.t.Errorf("%s went from version %s back to %s", s.Object, f.seen[s.Object], s.Version)
	}
	f.seen[s.Object] = s.Version
	return nil
}

func (f *follower) at(object string) Version {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[object]
}

// followed is a program, its objects and its server within synctest.
type followed struct {
	*follower
	s *objectServer
	o *Objects
	l *listening
}

func follow(t *testing.T, s *objectServer, opts ...ObjectsOption) *followed {
	t.Helper()
	o, err := NewObjects("g", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return &followed{follower: &follower{t: t, seen: map[string]Version{}}, s: s, o: o}
}

// run connects.
func (f *followed) run(opts ...ListenOption) {
	f.l = listen(f.t, f.s.play, nil, append(opts, Follow(f.o), Device("unit"))...)
	synctest.Wait()
}

func (f *followed) register(objects ...string) {
	f.t.Helper()
	if err := f.o.Register(f.handle, objects...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followed) unregister(objects ...string) {
	f.t.Helper()
	if err := f.o.Unregister(objects...); err != nil {
		f.t.Fatal(err)
	}
}

// agreed checks that both sides are registered for exactly these objects.
func (f *followed) agreed(objects ...string) {
	f.t.Helper()
	synctest.Wait()
	if got := f.s.has(); !slices.Equal(got, objects) {
		f.t.Errorf("the server has %v, want %v", got, objects)
	}
	var mine []string
	for _, s := range f.o.List() {
		mine = append(mine, s.Object)
		if s.Status != Registered {
			f.t.Errorf("%s is %s", s.Object, s.Status)
		}
	}
	if !slices.Equal(mine, objects) {
		f.t.Errorf("the client has %v, want %v", mine, objects)
	}
}

func (s *objectServer) drop() {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	c.end(io.EOF)
	synctest.Wait()
}
