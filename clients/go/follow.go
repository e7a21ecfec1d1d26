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

// RegistrationStatus is how far a registration is.
type RegistrationStatus string

// The states of a registration. Pending states end as soon as client and server have agreed.
const (
	PendingRegistration   RegistrationStatus = "pending registration"
	Registered            RegistrationStatus = "registered"
	PendingUnregistration RegistrationStatus = "pending unregistration"
	Unregistered          RegistrationStatus = "unregistered" // also for objects that were never registered
	Refused               RegistrationStatus = "refused"      // for good; registering it again makes another request
)

// ObjectStatus is one registration and the newest version that was handled.
type ObjectStatus struct {
	Group, Object string
	Status        RegistrationStatus
	Version       Version // 0: none yet
	Unknown       bool    // the last signal said that the version is unknown
	Err           error   // a *RegistrationError if the server refused it, for good or for now
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

// SignalHandler handles one signal. Returning nil acknowledges it; after an error it is called again after a while,
// with the newest version there is by then.
type SignalHandler func(ctx context.Context, s *Signal) error

// Objects are the registrations of a recipient's device. Listen keeps them in agreement with the server: pass them as
// Follow. Registering and unregistering work at any time, connected or not.
//
// A handler gets versions that only grow, not every one of them: after several changes while the client was away or busy
// it gets only the latest version. Handlers run one at a time, and only while Listen runs.
//
// With a named Device the server stores the registrations and acknowledged versions; without one they last for the
// session and are made again on the next.
type Objects struct {
	group    string
	file     string
	onChange func(ObjectStatus)

	mu    sync.Mutex
	regs  *registrations
	owner *owner        // of the file; nil: none yet
	wake  func()        // wakes the session's writer to send changes; nil: no Listen is running
	work  chan struct{} // has an entry when there may be something to handle
	moved chan struct{} // closed and replaced at every change

	saving sync.Mutex
	saved  uint64 // the version of regs that is in the file
}

// ObjectsOption changes what NewObjects makes.
type ObjectsOption func(*Objects)

// StateFile keeps the registrations and the versions handled in a file, so that they outlive the program. The file
// is replaced as a whole. A file that cannot be read as state is moved aside as NAME.bad, and the client begins without
// state.
func StateFile(name string) ObjectsOption { return func(o *Objects) { o.file = name } }

// OnRegistration sets a function that is called at every change of a registration's status. Listen waits for it.
func OnRegistration(f func(ObjectStatus)) ObjectsOption { return func(o *Objects) { o.onChange = f } }

// NewObjects makes an empty set of registrations in a group, or one with the registrations in its state file.
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

// Register asks for the latest version of objects, now and whenever it changes. A name is one of the group, or
// "group/object". For an object that is registered already the handler replaces the one before; after a restart with a
// StateFile, signals wait until their object has a handler again. The error is one of a name, or of writing the state
// file.
func (o *Objects) Register(handle SignalHandler, objects ...string) error {
	if handle == nil {
		return errors.New("register objects: there is no handler")
	}
	return o.change("register", objects, func(k objectKey) { o.regs.want(k, handle) })
}

// Unregister ends registrations. No further signals come for these objects, even before the server knows.
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

// Status returns how far an object's registration is.
func (o *Objects) Status(object string) ObjectStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.key(object)
	if e := o.regs.entries[k]; e != nil {
		return e.view(k)
	}
	return ObjectStatus{Group: k.group, Object: k.object, Status: Unregistered}
}

// List returns all registrations, by group and object.
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

// Settled waits until client and server agree on every registration; those that were refused for good count as
// agreed. It needs a Listen that runs.
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

// Follow lets Listen receive the signals of objects. One Listen at a time may use them. A nil notification handler
// leaves the recipient's notifications alone.
func Follow(objects *Objects) ListenOption { return func(o *listenOptions) { o.objects = objects } }

// attach ties the objects to a Listen.
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
		// An error stays until the next change, or the end of Listen, which tries again and returns it.
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

// digest is that of the desired set.
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

// take returns what is to be sent now, and when there will be more; zero: when something has happened.
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
