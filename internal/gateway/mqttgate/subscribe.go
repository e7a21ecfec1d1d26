package mqttgate

import (
	"slices"
	"strings"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/objects/object"
)

// subscription is one filter of a client.
type subscription struct {
	filter  string
	qos     byte
	noLocal bool
	id      uint32 // its identifier; 0: none
}

// ask is a SUBSCRIBE or UNSUBSCRIBE packet that is answered once what it changes is stored.
type ask struct {
	of      wire.Type // SUBACK or UNSUBACK
	packet  uint16
	reasons []wire.Reason
	why     string
	open    map[object.Key]int // indexes of what is not stored yet
	keeping bool               // its filters of topics that wait are not stored yet
	left    int                // of an UNSUBSCRIBE packet: how many of its objects are not stored yet
	digest  string             // of the device's registrations
}

// subscribe handles a SUBSCRIBE packet.
func (c *conn) subscribe(p wire.Packet, in *input) error {
	s := &in.subscribe
	if err := s.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	c.sess.Alive()
	a := &ask{of: wire.SUBACK, packet: s.ID, reasons: make([]wire.Reason, len(s.Filters))}
	id := s.Properties.Number(wire.SubscriptionID, 0)
	list := make([]subscription, len(s.Filters))
	for i, f := range s.Filters {
		list[i] = subscription{filter: string(f.Name), qos: f.QoS, noLocal: f.NoLocal, id: id}
		if first, _, _ := strings.Cut(list[i].filter, "/"); f.NoLocal && first == shareLevel { // section 3.8.3.1
			return broken(wire.ProtocolError, "SUBSCRIBE: a shared subscription with No Local")
		}
	}
	c.changeStored(in, func(subs []subscription) []subscription { return with(subs, list) }, func(in *input, err error) {
		if err != nil {
			c.notStored(a)
			return
		}
		c.begin(a, list, in)
	})
	return nil
}

// begin begins the subscriptions of a SUBSCRIBE packet.
func (c *conn) begin(a *ask, list []subscription, in *input) {
	byGroup := make(map[string][][]byte)
	var keep []subscription
	forgotten := false
	for i := range list {
		sub, why := list[i], ""
		key, is, wrong := objectFilter(sub.filter)
		switch {
		case !c.remembers(sub):
			a.reasons[i], why = wire.QuotaExceeded, "this session has as many subscriptions as one may have"
		case is && wrong == wire.Success:
			a.wait(key, i)
			byGroup[key.Group] = append(byGroup[key.Group], []byte(key.Object))
			c.wantObject(&sub)
		case is:
			a.reasons[i], why = wrong, "objects are subscribed to by name: o/GROUP/OBJECT, without wildcards"
		default:
			a.reasons[i], why = c.grant(&sub, in)
		}
		if a.why == "" {
			a.why = why
		}
		if a.reasons[i].Failed() {
			forgotten = c.forget(sub.filter) || forgotten
			continue
		}
		c.identify(&sub)
		if _, inner, _ := cutShare(sub.filter); sub.qos > 0 && !sub.noLocal && c.mayKeep(inner) {
			sub.qos = c.gate.highest(sub.qos)
			a.reasons[i] = wire.Reason(sub.qos)
			keep = append(keep, sub)
			continue
		}
		c.dropKept(sub.filter)
		if qos := c.assure(&sub); qos > 0 {
			a.reasons[i] = wire.Reason(qos)
		}
	}
	if forgotten {
		c.storeSession()
	}
	for key, i := range a.open {
		a.reasons[i] = wire.GrantedQoS1
		if c.isLow(objectLevel + "/" + key.Group + "/" + key.Object) {
			a.reasons[i] = wire.Success
		}
	}
	a.keeping = len(keep) > 0
	c.answerOnceStored(a)
	c.keepThen(a, keep)
	for group, objects := range byGroup {
		in.frame = frame.Client{Kind: frame.KindRegister, Group: []byte(group), Objects: objects}
		c.sess.Frame(&in.frame)
	}
}

// answerOnceStored answers a packet, or keeps it until it waits for nothing.
func (c *conn) answerOnceStored(a *ask) {
	if !a.waits() {
		c.answer(a)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.busy()
	m.asks = append(m.asks, a)
}

// waits reports whether the answer to a packet waits for the store.
func (a *ask) waits() bool { return len(a.open) > 0 || a.left > 0 || a.keeping }

// notStored answers a packet that changes nothing, since that cannot be stored.
func (c *conn) notStored(a *ask) {
	a.why = "the subscription cannot be stored now; send this again later"
	for i := range a.reasons {
		a.reasons[i] = wire.Unspecified
	}
	c.answer(a)
}

func (a *ask) wait(key object.Key, i int) {
	if a.open == nil {
		a.open = make(map[object.Key]int)
	}
	a.open[key] = i
}

// objectFilter reports whether a filter is for an object, and which one; wrong is why it cannot be.
func objectFilter(filter string) (key object.Key, is bool, wrong wire.Reason) {
	t, rest := targetOf(filter)
	if t != toObject {
		return key, false, wire.Success
	}
	if strings.ContainsAny(rest, "+#") {
		return key, true, wire.WildcardUnsupported
	}
	var ok bool
	if key.Group, key.Object, ok = objectOf(rest); !ok {
		return key, true, wire.InvalidFilter
	}
	return key, true, wire.Success
}

// wantObject notes the QoS at which the client wants an object.
func (c *conn) wantObject(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.busy()
	i := slices.Index(m.low, s.filter)
	switch {
	case s.qos == 0 && i < 0:
		m.low = append(m.low, s.filter)
	case s.qos > 0 && i >= 0:
		m.low = slices.Delete(m.low, i, i+1)
	}
	c.tidy()
}

func (c *conn) isLow(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.more.lowQoS(name)
}

// answer sends a SUBACK or UNSUBACK.
func (c *conn) answer(a *ask) {
	var user []byte
	if a.digest != "" {
		user = wire.AppendUser(user, "digest", a.digest)
	}
	c.write(wire.AppendSuback(nil, c.version(), a.of, a.packet, a.reasons, c.explain(a.why, user)), nil)
}

// registered handles the session's news that registrations are stored.
func (c *conn) registered(r frame.Registered) {
	if len(r.Objects) == 0 {
		c.unregisteredSome(r.Digest)
		return
	}
	c.resolve(r.Group, r.Objects, func(a *ask, _ int) { a.digest = r.Digest })
}

// unregisteredSome handles the answer to a frame that ended registrations. With too many answers waiting, it stands for all of them.
func (c *conn) unregisteredSome(digest string) {
	if c.has(silent) { // what was to be discarded is
		c.unset(silent)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.more
	if m == nil {
		return
	}
	if i := slices.IndexFunc(m.asks, func(a *ask) bool { return a.left > 0 }); i >= 0 {
		a := m.asks[i]
		a.left--
		a.digest = digest
	} else {
		for _, a := range m.asks {
			a.open = nil
		}
	}
	c.answerReady()
}

// answerReady answers the packets that wait for no more. c.mu is held.
func (c *conn) answerReady() {
	c.more.asks = slices.DeleteFunc(c.more.asks, func(a *ask) bool {
		if a.waits() {
			return false
		}
		c.answer(a)
		return true
	})
	c.tidy()
}

// unregistered handles the session's news that objects cannot be registered for.
func (c *conn) unregistered(f frame.RegistrationFailed) {
	reason, why := wire.NotAuthorized, "the credential does not allow to register for "+strings.Join(f.Objects, ", ")
	switch f.Code {
	case "too_many":
		reason, why = wire.QuotaExceeded, "this device has as many registrations as one may have"
	case "unavailable":
		reason, why = wire.Unspecified, "registrations cannot be stored now; subscribe again later"
	}
	if len(f.Objects) == 0 && f.Transient {
		c.unregisteredSome("")
		return
	}
	c.resolve(f.Group, f.Objects, func(a *ask, i int) { a.reasons[i], a.why = reason, why })
}

// resolve notes that some objects of waiting SUBSCRIBE packets are decided, and answers the packets that wait for no more.
func (c *conn) resolve(group string, objects []string, decided func(a *ask, i int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.more
	if m == nil {
		return
	}
	for _, o := range objects {
		key := object.Key{Group: group, Object: o}
		for _, a := range m.asks {
			if i, waits := a.open[key]; waits {
				decided(a, i)
				delete(a.open, key)
				break
			}
		}
	}
	c.answerReady()
}

// grant begins a subscription to anything but an object, and returns its reason code and, if it is refused, why.
func (c *conn) grant(s *subscription, in *input) (reason wire.Reason, why string) {
	queue, inner, ok := cutShare(s.filter)
	if !ok {
		return wire.InvalidFilter, "a shared subscription is $share/QUEUE/FILTER, and the queue a name"
	}
	t, rest := targetOf(inner)
	if queue != "" && t != toTopics && t != toWorkers {
		return wire.SharedUnsupported, "only topics and requests can be shared"
	}
	if s.noLocal {
		c.set(noLocal)
	}
	switch t {
	case toInbox:
		return c.openInbox(s.qos), ""
	case toRecalls:
		c.set(recalls)
	case toGaps:
		c.set(gaps)
	case toCounts:
		c.set(tallies)
		c.gate.start(c.sess.TellInbox) // as a retained message would: it reads the store
	case toReplies:
	case toObject: // of a session that is back: its registrations are in the store
		c.wantObject(s)
	case toRequests, toWorkers:
		if !c.has(five) {
			return wire.Implementation, "requests need MQTT 5: an answer has a response topic"
		}
		if t == toRequests {
			c.set(requests)
			break
		}
		return c.follow(frame.KindServe, rest, queue, in)
	case toTopics:
		return c.follow(frame.KindSubscribe, inner, queue, in)
	case toFigures:
		return c.followFigures(inner)
	case toMailbox:
		return wire.NotAuthorized, "a mailbox is read by its recipient, who subscribes to " + inboxName
	default:
		return wire.InvalidFilter, "nothing is published there"
	}
	return wire.Success, ""
}

// openInbox begins the delivery of the mailbox. At QoS 0 nothing is acknowledged: every notification comes once on each connection and stays
// in the mailbox.
func (c *conn) openInbox(qos byte) wire.Reason {
	granted := wire.GrantedQoS1
	if qos == 0 || c.has(observer) {
		granted = wire.Success
		c.sess.Once(true)
		c.unset(inboxAcked)
		c.set(inboxOnce)
	} else {
		c.sess.Once(false)
		c.unset(inboxOnce)
		c.set(inboxAcked)
	}
	c.sess.Drained()
	return granted
}

// follow subscribes to topics, or serves subjects.
func (c *conn) follow(k frame.Kind, filter, queue string, in *input) (wire.Reason, string) {
	patterns, ok := toPatterns(filter)
	for _, p := range patterns {
		ok = ok && topic.CheckPattern("", p) == nil
	}
	if !ok {
		return wire.InvalidFilter, "not a filter, or one with more than 16 levels or 255 bytes"
	}
	refused := c.patterns(k, patterns, queue, in)
	for i := range refused {
		e := &refused[i]
		if len(e.Refused) < len(patterns) && slices.Equal(e.Refused, patterns[:1]) && e.Code == "forbidden" {
			continue // the level above # is not allowed, and what is below is
		}
		return codeOf(e.Code), e.Message
	}
	if k == frame.KindServe {
		c.set(serves)
	}
	return wire.Success, ""
}

// patterns passes a frame with patterns to the session and returns the errors that it answers.
func (c *conn) patterns(k frame.Kind, patterns []string, queue string, in *input) (refused []frame.Error) {
	in.frame = frame.Client{Kind: k, Queue: []byte(queue)}
	for _, p := range patterns {
		in.frame.Patterns = append(in.frame.Patterns, []byte(p))
	}
	return c.pass(&in.frame)
}

// pass passes a frame to the session and returns the errors that it answers.
func (c *conn) pass(f *frame.Client) (answered []frame.Error) {
	c.mu.Lock()
	c.busy().errors = &answered
	c.mu.Unlock()
	c.sess.Frame(f)
	c.mu.Lock()
	c.more.errors = nil
	c.tidy()
	c.mu.Unlock()
	return answered
}

// caught keeps an error that answers the frame which is being handled. MQTT has no packet for others.
func (c *conn) caught(e frame.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more != nil && c.more.errors != nil {
		*c.more.errors = append(*c.more.errors, e)
	}
}

func codeOf(code string) wire.Reason {
	switch code {
	case "forbidden":
		return wire.NotAuthorized
	case "too_many_topics", "too_many_subjects":
		return wire.QuotaExceeded
	default:
		return wire.Unspecified
	}
}

// unsubscribe handles an UNSUBSCRIBE packet.
func (c *conn) unsubscribe(p wire.Packet, in *input) error {
	s := &in.subscribe
	if err := s.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	c.sess.Alive()
	a := &ask{of: wire.UNSUBACK, packet: s.ID, reasons: make([]wire.Reason, len(s.Filters))}
	list := make([]string, len(s.Filters))
	for i, f := range s.Filters {
		list[i] = string(f.Name)
	}
	c.changeStored(in, func(subs []subscription) []subscription { return without(subs, list) }, func(in *input, err error) {
		if err != nil {
			c.notStored(a)
			return
		}
		c.stop(a, list, in)
	})
	return nil
}

// stop ends the subscriptions of an UNSUBSCRIBE packet.
func (c *conn) stop(a *ask, list []string, in *input) {
	var objects []object.Key
	for i, filter := range list {
		if key, is, wrong := objectFilter(filter); !is {
			a.reasons[i] = c.drop(filter, in)
		} else if a.reasons[i] = wrong; wrong == wire.Success {
			c.wantObject(&subscription{filter: filter, qos: 1})
			objects = append(objects, key)
		}
		c.dropKept(filter)
		c.unsure(filter)
		c.identify(&subscription{filter: filter})
	}
	a.left = len(objects)
	c.answerOnceStored(a)
	for _, key := range objects {
		in.one[0] = []byte(key.Object)
		in.frame = frame.Client{Kind: frame.KindUnregister, Group: []byte(key.Group), Objects: in.one[:]}
		c.sess.Frame(&in.frame)
	}
}

// drop ends one subscription.
func (c *conn) drop(filter string, in *input) wire.Reason {
	queue, inner, ok := cutShare(filter)
	if !ok {
		return wire.InvalidFilter
	}
	flag, kind := uint32(0), frame.KindUnsubscribe
	t, rest := targetOf(inner)
	switch t {
	case toInbox:
		flag = inboxOnce | inboxAcked
	case toRecalls:
		flag = recalls
	case toGaps:
		flag = gaps
	case toCounts:
		flag = tallies
	case toRequests:
		flag = requests
	case toFigures:
		if !c.gate.watchers.leave(c, inner) {
			return wire.NoSubscription
		}
		return wire.Success
	case toWorkers:
		inner, kind = rest, frame.KindUnserve
	case toTopics:
	default:
		return wire.NoSubscription
	}
	if flag != 0 {
		if !c.has(flag) {
			return wire.NoSubscription
		}
		c.unset(flag)
		return wire.Success
	}
	patterns, ok := toPatterns(inner)
	for _, p := range patterns {
		if !ok || topic.CheckPattern("", p) != nil {
			return wire.InvalidFilter
		}
	}
	c.patterns(kind, patterns, queue, in)
	return wire.Success
}
