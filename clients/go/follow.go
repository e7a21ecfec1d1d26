package godwit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// RegistrationStatus is the state of a registration.
type RegistrationStatus string

// The states of a registration. Pending states end as soon as client and server have agreed.
const (
	PendingRegistration   RegistrationStatus = "pending registration"
	Registered            RegistrationStatus = "registered"
	PendingUnregistration RegistrationStatus = "pending unregistration"
	Unregistered          RegistrationStatus = "unregistered" // also the status of objects that were never registered
	Refused               RegistrationStatus = "refused"      // for good; registering the object again makes a new request
)

// ObjectStatus is one registration and the newest version that was handled.
type ObjectStatus struct {
	Group, Object string
	Status        RegistrationStatus
	Version       Version // 0: none yet
	Unknown       bool    // the last signal said that the version is unknown
	Err           error   // a *RegistrationError if the server refused the registration, for good or for now
}

// RegistrationError is the reason why the server refused a registration.
type RegistrationError struct {
	Group, Object string
	Code          string // forbidden, too_many, group_required, unavailable, ...
	Transient     bool   // it is tried again
}

func (e *RegistrationError) Error() string {
	return fmt.Sprintf("server refused the registration for %s/%s: %s", e.Group, e.Object, e.Code)
}

// SignalHandler handles one signal. Returning nil acknowledges it. After an error it is called again later, with the newest version at that
// time.
type SignalHandler func(ctx context.Context, s *Signal) error

// Objects are the registrations of a recipient's device. Pass them to Listen with Follow: it keeps them in agreement with
// the server. Registering and unregistering work at any time, connected or not.
//
// A handler gets versions that only grow, not every one of them: after several changes while the client was away or busy
// it gets only the latest version. Handlers run one at a time, and only while Listen runs.
//
// With a named Device the server stores the registrations and acknowledged versions. Without one they end with the
// session, and the next session registers again.
type Objects struct {
	group    string
	file     string
	onChange func(ObjectStatus)

	mu    sync.Mutex
	regs  *registrations
	owner *owner        // owner of the file; nil: not known yet
	wake  func()        // wakes the session's writer to send changes; nil: no Listen is running
	work  chan struct{} // has an element when there may be something to handle
	moved chan struct{} // closed and replaced at every change

	saving sync.Mutex
	saved  uint64 // the version of regs that is in the file
}

// ObjectsOption changes what NewObjects makes.
type ObjectsOption func(*Objects)

// StateFile stores the registrations and the handled versions in a file, so that they survive a restart of the program. The file is
// replaced atomically. A file with invalid content is renamed to NAME.bad, and the client begins without state.
func StateFile(name string) ObjectsOption { return func(o *Objects) { o.file = name } }

// OnRegistration sets a function that is called at every change of a registration's status. Listen blocks until it returns.
func OnRegistration(f func(ObjectStatus)) ObjectsOption { return func(o *Objects) { o.onChange = f } }

// NewObjects returns the registrations of a group: those in the state file, or none.
func NewObjects(group string, opts ...ObjectsOption) (*Objects, error) {
	if err := checkName("group", group); err != nil {
		return nil, fmt.Errorf("follow objects: %w", err)
	}
	o := &Objects{group: group, regs: newRegistrations(group), work: make(chan struct{}, 1), moved: make(chan struct{})}
	for _, opt := range opts {
		opt(o)
	}
	if o.file != "" {
		if err := o.load(); err != nil {
			return nil, fmt.Errorf("follow objects: %w", err)
		}
	}
	return o, nil
}

// Register requests the latest version of objects, now and at every change. A name is that of an object in the group, or "group/object". If
// an object is registered already, the new handler replaces the old one. After a restart with a StateFile, signals wait until their object
// has a handler again. The error reports an invalid name, or a failure to write the state file.
func (o *Objects) Register(handle SignalHandler, objects ...string) error {
	if handle == nil {
		return errors.New("register objects: there is no handler")
	}
	return o.change("register", objects, func(k objectKey) { o.regs.want(k, handle) })
}

// Unregister ends registrations. The handler gets no further signals of these objects, even before the server has processed the request.
func (o *Objects) Unregister(objects ...string) error {
	return o.change("unregister", objects, o.regs.drop)
}

func (o *Objects) change(what string, objects []string, do func(objectKey)) error {
	keys := make([]objectKey, len(objects))
	for i, name := range objects {
		keys[i] = o.key(name)
		if err := keys[i].check(); err != nil {
			return fmt.Errorf("%s %s: %w", what, name, err)
		}
	}
	o.update(func() {
		for _, k := range keys {
			do(k)
		}
	})
	if err := o.save(); err != nil {
		return fmt.Errorf("%s objects: %w", what, err)
	}
	return nil
}

func (o *Objects) key(name string) objectKey {
	if group, object, ok := strings.Cut(name, "/"); ok {
		return objectKey{group, object}
	}
	return objectKey{o.group, name}
}

// update changes the registrations and informs the session and the file.
func (o *Objects) update(do func()) {
	o.mu.Lock()
	do()
	if o.onChange == nil {
		o.regs.changes = nil
	}
	close(o.moved)
	o.moved = make(chan struct{})
	wake := o.wake
	o.mu.Unlock()
	if wake == nil {
		return
	}
	wake()
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// Status returns the state of an object's registration.
func (o *Objects) Status(object string) ObjectStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.key(object)
	if e := o.regs.entries[k]; e != nil {
		return e.view(k)
	}
	return ObjectStatus{Group: k.group, Object: k.object, Status: Unregistered}
}

// List returns all registrations, ordered by group and object.
func (o *Objects) List() []ObjectStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list()
}

func (o *Objects) list() []ObjectStatus {
	list := make([]ObjectStatus, 0, len(o.regs.entries))
	for k, e := range o.regs.entries {
		list = append(list, e.view(k))
	}
	slices.SortFunc(list, func(a, b ObjectStatus) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Object, b.Object))
	})
	return list
}

// Settled waits until client and server agree on every registration; registrations refused for good count as agreed. It needs a running
// Listen.
func (o *Objects) Settled(ctx context.Context) error {
	for {
		o.mu.Lock()
		moved, pending := o.moved, !o.regs.summarised || o.regs.reset
		for _, e := range o.regs.entries {
			pending = pending || e.status == PendingRegistration || e.status == PendingUnregistration
		}
		o.mu.Unlock()
		if !pending {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("settle registrations: %w", context.Cause(ctx))
		}
	}
}

// Follow makes Listen receive the signals of objects. Only one Listen at a time may use them. With a nil notification handler, Listen
// ignores the recipient's notifications.
func Follow(objects *Objects) ListenOption { return func(o *listenOptions) { o.objects = objects } }

// attach connects the objects with a Listen.
func (o *Objects) attach(who owner, wake func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wake != nil {
		return errors.New("the objects are used by another Listen")
	}
	if o.file != "" && o.owner != nil && *o.owner != who {
		return fmt.Errorf("%s is the state of %s, not of %s", o.file, o.owner, &who)
	}
	o.owner, o.wake = &who, wake
	return nil
}

func (o *Objects) detach() error {
	o.mu.Lock()
	o.wake = nil
	o.regs.lost()
	o.mu.Unlock()
	return o.save()
}

// run calls handlers until ctx ends.
func (o *Objects) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.work:
		case <-again.C:
		}
		if at := o.handleAll(ctx); !at.IsZero() {
			again.Reset(time.Until(at))
		}
		// An error is kept until the next change, or until Listen ends, which tries again and returns it.
		_ = o.save()
	}
}

// handleAll handles waiting signals and returns the time of the next retry.
func (o *Objects) handleAll(ctx context.Context) time.Time {
	for ctx.Err() == nil {
		o.mu.Lock()
		changes := o.regs.changes
		o.regs.changes = nil
		handle, s, at := o.regs.next(time.Now())
		o.mu.Unlock()
		if o.onChange != nil {
			for _, c := range changes {
				o.onChange(c)
			}
		}
		if s == nil {
			return at
		}
		err := handle(ctx, s)
		o.update(func() { o.regs.handled(s, err, time.Now()) })
	}
	return time.Time{}
}

// digest returns the digest of the desired set.
func (o *Objects) digest() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return formatDigest(o.regs.digest)
}

func (o *Objects) ping() *clientFrame {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.regs.ping()
}

// take returns the frames to send now, and the time of the next ones; zero: unknown until something happens.
func (o *Objects) take(last bool) (frames []*clientFrame, again time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.regs.take(time.Now(), last), o.regs.sendAt()
}

// frame handles the server's frames about objects.
func (o *Objects) frame(f *serverFrame) {
	k, now := o.regs, time.Now()
	o.update(func() {
		switch {
		case f.Object != nil:
			k.object(f.Object, now)
		case f.Registered != nil:
			k.registered(f.Registered, now)
		case f.RegistrationFailed != nil:
			k.failed(f.RegistrationFailed, now)
		case f.Pong != nil:
			k.compare(f.Pong.Digest, now)
		case f.Welcome != nil: // of a renewed hello
			k.compare(f.Welcome.Digest, now)
		}
	})
}
