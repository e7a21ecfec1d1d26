package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/objects/object"
)

// wire is a unit's connection. recv returns false when it is over.
type wire interface {
	send(text string)
	recv() (text string, ok bool)
	cutOff()
}

// unit is a client that follows the protocol: it stores the objects that it wants and their versions, sends the digest of the wanted set,
// and sends the whole set if the server's digest differs.
type unit struct {
	app, recipient, device string
	dial                   func(u *unit) (wire, bool)
	beat                   time.Duration
	judge                  *judge
	careless               func() bool // sometimes true: then a version is neither handled nor acknowledged
	stop                   chan struct{}
	wake                   chan struct{} // it may connect again

	mu      sync.Mutex
	rand    *rand.Rand
	away    bool
	want    map[string]bool
	known   map[string]object.Version // newest versions received; kept after an "unknown"
	unsure  map[string]bool           // told unknown after that
	refused map[string]bool           // permanently refused, and so no longer requested from the server
	own     map[string]object.Version // versions that this unit put during this connection
	before  map[string]object.Version // versions that this unit put during an earlier connection, and whose answer came during this one
	line    wire
	live    bool // welcomed
	asked   int  // registrations asked for so far
	pinged  int  // asked at the last ping
}

// judge collects violations of the protocol.
type judge struct {
	mu         sync.Mutex
	complaints []string
	frames     int
	resyncs    int
}

func (j *judge) complain(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.complaints) < 20 {
		j.complaints = append(j.complaints, fmt.Sprintf(format, args...))
	}
}

func (j *judge) count(frames, resyncs int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.frames, j.resyncs = j.frames+frames, j.resyncs+resyncs
}

func (j *judge) heard() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.complaints)
}

func (j *judge) asked() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.resyncs
}

func (u *unit) String() string { return u.app + "/" + u.recipient + "/" + u.device }

// run keeps the unit connected until it is stopped.
func (u *unit) run() {
	for {
		select {
		case <-u.stop:
			return
		default:
		}
		if w, ok := u.connect(); ok {
			u.session(w)
			continue
		}
		u.mu.Lock()
		away, wait := u.away, time.Duration(u.rand.IntN(3000))*time.Millisecond
		u.mu.Unlock()
		timer := time.NewTimer(wait)
		if away {
			timer.Stop()
		}
		select {
		case <-u.stop:
		case <-timer.C:
		case <-u.wake:
		}
		timer.Stop()
	}
}

func (u *unit) connect() (wire, bool) {
	u.mu.Lock()
	away := u.away
	u.mu.Unlock()
	if away {
		return nil, false
	}
	w, ok := u.dial(u)
	if !ok {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.away {
		w.cutOff()
		return nil, false
	}
	u.line, u.live = w, false
	clear(u.own)
	clear(u.before)
	return w, true
}

// session is one connection, from hello to its end.
func (u *unit) session(w wire) {
	u.mu.Lock()
	hello := map[string]any{"app": u.app, "recipient": u.recipient, "group": group, "heartbeat": u.beat.String(), "digest": u.digest().String()}
	if u.device != "" {
		hello["device"] = u.device
	}
	u.mu.Unlock()
	b, err := json.Marshal(map[string]any{"hello": hello})
	if err != nil {
		panic(err) // strings always encode
	}
	w.send(string(b))
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.heartbeat(w, over)
	}()
	for {
		text, ok := w.recv()
		if !ok || !u.frame(w, text) {
			break
		}
	}
	w.cutOff()
	close(over)
	<-done
	u.mu.Lock()
	if u.line == w {
		u.line, u.live = nil, false
	}
	u.mu.Unlock()
}

func (u *unit) heartbeat(w wire, over chan struct{}) {
	tick := time.NewTicker(u.beat)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			u.mu.Lock()
			if u.live {
				u.pinged = u.asked
				w.send(fmt.Sprintf(`{"ping":{"digest":"%s"}}`, u.digest()))
			}
			u.mu.Unlock()
		}
	}
}

// digest returns the digest of the wanted objects that were not permanently refused.
func (u *unit) digest() (d object.Digest) {
	for name := range u.want {
		if !u.refused[name] {
			d += object.Key{Group: group, Object: name}.Hash()
		}
	}
	return d
}

type serverFrame struct {
	Welcome, Pong, Registered *struct{ Digest string }
	Failed                    *struct {
		Objects   []string
		Code      string
		Transient bool
	} `json:"registration_failed"`
	Object *struct {
		Group, Object string
		Version       object.Version `json:",string"`
		Payload       string
		Unknown       bool
	}
	Goodbye *struct{ Reason string }
	Error   *struct{ Code, Message string }
}

// frame handles one server frame; false: the session is over.
func (u *unit) frame(w wire, text string) bool {
	var f serverFrame
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		u.judge.complain("%s got %s: %v", u, text, err)
		return false
	}
	u.judge.count(1, 0)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case f.Welcome != nil:
		u.live, u.pinged = true, u.asked
		u.compare(w, f.Welcome.Digest)
	case f.Pong != nil:
		if u.pinged == u.asked { // else answers are under way
			u.compare(w, f.Pong.Digest)
		}
	case f.Failed != nil && !f.Failed.Transient:
		for _, name := range f.Failed.Objects {
			u.refused[name] = true
		}
		if f.Failed.Code != "forbidden" || slices.ContainsFunc(f.Failed.Objects, func(n string) bool { return u.app != limitedApp || n[0] == 'o' }) {
			u.judge.complain("%s was refused %v: %s", u, f.Failed.Objects, f.Failed.Code)
		}
	case f.Object != nil:
		u.object(w, f.Object.Object, f.Object.Version, f.Object.Unknown, f.Object.Payload)
		if f.Object.Group != group {
			u.judge.complain("%s got %s", u, text)
		}
	case f.Error != nil:
		u.judge.complain("%s got %s", u, text)
	case f.Goodbye != nil:
		return text != theEnd
	}
	return true
}

func (u *unit) object(w wire, name string, v object.Version, unknown bool, payload string) {
	if !unknown && payload != payloadOf(u.app, name, v) {
		u.judge.complain("%s got %s %d with the payload %q", u, name, v, payload)
	}
	if u.careless != nil && !unknown && u.careless() {
		return
	}
	switch {
	case !u.want[name]: // it has just unregistered
	case unknown && v < u.own[name]: // it was sent before the server got the unit's newer version
	case unknown:
		u.unsure[name] = true
		if v < u.before[name] {
			u.askAgain(name)
		}
	case v > u.known[name]:
		u.known[name] = v
		delete(u.unsure, name)
	case v == u.known[name]:
		delete(u.unsure, name)
	}
	if !unknown {
		w.send(fmt.Sprintf(`{"object_ack":{"object":%q,"version":"%d"}}`, name, v))
	}
}

// compare sends the whole set if the server's digest differs, and requests again the objects of which it knows no version.
func (u *unit) compare(w wire, digest string) {
	switch digest {
	case "":
		return
	case u.digest().String():
		for _, name := range u.wanted() {
			if u.known[name] == 0 && !u.unsure[name] {
				w.send(fmt.Sprintf(`{"register":{"objects":[%q]}}`, name))
				u.asked++
			}
		}
		return
	}
	u.judge.count(0, 1)
	names := u.wanted()
	if len(names) == 0 {
		w.send(`{"register":{"reset":true}}`)
		return
	}
	for first := true; len(names) > 0; first = false {
		n := min(len(names), 1+u.rand.IntN(10))
		w.send(fmt.Sprintf(`{"register":{"objects":["%s"],"reset":%t,"more":%t}}`, strings.Join(names[:n], `","`), first, n < len(names)))
		names = names[n:]
	}
	u.asked++
}

func (u *unit) wanted() (names []string) {
	for name := range u.want {
		if !u.refused[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// set changes what is wanted.
func (u *unit) set(name string, want bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.want[name] == want {
		return
	}
	frame := "unregister"
	if want {
		u.want[name] = true
		frame = "register"
	} else {
		delete(u.want, name)
		delete(u.known, name)
		delete(u.unsure, name)
	}
	u.asked++
	if u.live && !u.refused[name] {
		u.line.send(fmt.Sprintf(`{%q:{"objects":[%q]}}`, frame, name))
	}
}

// connection is the present one.
func (u *unit) connection() wire {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.line
}

// made records a version that the unit has put itself, which the server does not send back, and during which connection.
func (u *unit) made(name string, v object.Version, during wire) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.line == during {
		u.own[name] = max(u.own[name], v)
	} else {
		u.before[name] = max(u.before[name], v)
		if u.unsure[name] && v > u.known[name] {
			u.askAgain(name)
		}
	}
	if u.want[name] && v > u.known[name] {
		u.known[name] = v
		delete(u.unsure, name)
	}
}

// askAgain requests an object again for which an "unknown" arrived on this connection while a put of an earlier one was answered: either
// may be newer, and only the server knows which. The caller holds u.mu.
func (u *unit) askAgain(name string) {
	delete(u.before, name)
	if u.live && u.want[name] {
		u.asked++
		u.line.send(fmt.Sprintf(`{"register":{"objects":[%q]}}`, name))
	}
}

// forget simulates a unit that lost its state and restarts with the same wishes.
func (u *unit) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.known)
	clear(u.unsure)
	clear(u.refused)
	if u.line != nil {
		u.line.cutOff()
	}
}

// cut drops the connection; if away is true the unit stays away.
func (u *unit) cut(away bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.away = away
	if u.line != nil {
		u.line.cutOff()
	}
	if !away {
		select {
		case u.wake <- struct{}{}:
		default:
		}
	}
}

// back lets a unit that stayed away reconnect.
func (u *unit) back() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.away {
		return
	}
	u.away = false
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// check compares the versions that the unit has with the truth.
func (u *unit) check(truth func(app, name string) object.State) (problems []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.want)) {
		st := truth(u.app, name)
		switch {
		case u.refused[name]:
			if u.app != limitedApp || name[0] == 'o' {
				problems = append(problems, fmt.Sprintf("%s: %s is refused", u, name))
			}
		case st.Known && (u.known[name] != st.Version || u.unsure[name]):
			problems = append(problems, fmt.Sprintf("%s: %s is at %d, it knows %d, unsure %t", u, name, st.Version, u.known[name], u.unsure[name]))
		case !st.Known && !u.unsure[name]:
			problems = append(problems, fmt.Sprintf("%s: %s is unknown, it knows %d", u, name, u.known[name]))
		}
	}
	return problems
}
