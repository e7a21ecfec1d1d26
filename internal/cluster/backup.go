package cluster

import (
	"encoding/json"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// backups holds the names of other nodes' recipients for which this node is the backup. Each node has a backup: the next one among the
// nodes whose heartbeats it receives. The node reports to its backup which recipients come and go. After the node has died, the backup can
// therefore inform followers.
type backups struct {
	by     map[string]*backedUp     // by boot
	news   map[mailbox.Address]bool // recipients that came or left, not yet reported to the backup
	backup string                   // boot; empty: there is none
	sent   uint64                   // number of messages sent to the backup
	all    bool                     // all names must be sent to the backup again
}

// backedUp is a node for which this node is the backup, with the data it has reported.
type backedUp struct {
	got   uint64            // messages
	names map[string]*names // by app
}

// roster is the body of kindRoster: a report to the backup.
type roster struct {
	N    uint64              `json:"n"`
	All  bool                `json:"all,omitempty"`  // replaces everything reported before
	Came map[string][]string `json:"came,omitempty"` // by app
	Left map[string][]string `json:"left,omitempty"`
	Over bool                `json:"over,omitempty"` // the sender now has another backup
}

const namesAtOnce = 1000 // names in one message, which stays well below the line's limit

func (ws *backups) init() {
	ws.by = make(map[string]*backedUp)
	ws.news = make(map[mailbox.Address]bool)
}

// changed schedules a report to the backup about a recipient. p.mu is held.
func (ws *backups) changed(at mailbox.Address) {
	if ws.backup != "" {
		ws.news[at] = true
	}
}

// of lists the nodes that have reported that a recipient is connected to them. p.mu is held.
func (ws *backups) of(at mailbox.Address) (boots []string) {
	for boot, w := range ws.by {
		if of := w.names[at.App]; of != nil && of.has(at.Recipient) {
			boots = append(boots, boot)
		}
	}
	return boots
}

// backup returns the boot of this node's backup, and the number of the last report to it.
func (p *presence) backup() (backup string, sent uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backups.backup, p.backups.sent
}

// sendAll schedules a report of all names to the backup.
func (p *presence) sendAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backups.all = true
}

// updateBackup reports to the backup which recipients came and left, or all recipients here if the backup is new.
func (c *Cluster) updateBackup() {
	next, p := c.nextNode(), &c.presence
	ws := &p.backups
	p.mu.Lock()
	former := ws.backup
	if next != former {
		ws.backup, ws.sent, ws.all = next, 0, true
	}
	all, news := ws.all, ws.news
	ws.all = false
	nothing := !all && len(news) == 0
	if !nothing {
		ws.news = make(map[mailbox.Address]bool)
	}
	p.mu.Unlock()
	if next != former && former != "" {
		_ = c.publish(oneNode+former, message{kind: kindRoster, body: text(roster{Over: true})})
	}
	if next == "" || nothing {
		return
	}
	r := roster{All: all}
	if all {
		c.hub.Load().EachHere(func(app, recipient string) { news[mailbox.Address{App: app, Recipient: recipient}] = true })
	}
	n := 0
	r.Came, r.Left = map[string][]string{}, map[string][]string{}
	for at := range news {
		p.mu.Lock()
		cl := p.claims.open[at]
		here := c.present(at, 0) > 0 || cl != nil && cl.leaving() // counts as connected until it is decided which node reports the departure
		p.mu.Unlock()
		if here {
			r.Came[at.App] = append(r.Came[at.App], at.Recipient)
		} else if !all {
			r.Left[at.App] = append(r.Left[at.App], at.Recipient)
		}
		if n++; n%namesAtOnce == 0 {
			c.sendRoster(next, r)
			r = roster{Came: map[string][]string{}, Left: map[string][]string{}}
		}
	}
	if n%namesAtOnce > 0 || r.All {
		c.sendRoster(next, r)
	}
}

// sendRoster sends a message to the backup with the next number. It stores the number after sending, because heartbeats must not announce a
// message that was not sent.
func (c *Cluster) sendRoster(backup string, r roster) {
	p := &c.presence
	p.mu.Lock()
	r.N = p.backups.sent + 1
	p.mu.Unlock()
	_ = c.publish(oneNode+backup, message{kind: kindRoster, body: text(r)}) // a gap in the numbers shows a loss
	p.mu.Lock()
	p.backups.sent = r.N
	p.mu.Unlock()
}

// nextNode returns the node that follows this one in the order of boots, among those that are alive and support backups. Empty: there is
// none.
func (c *Cluster) nextNode() string {
	boots := c.deciding()
	for _, boot := range boots {
		if boot > c.cfg.Boot {
			return boot
		}
	}
	if len(boots) > 0 {
		return boots[0]
	}
	return ""
}

func decodeRoster(body []byte) (r roster, err error) {
	err = json.Unmarshal(body, &r)
	return r, err
}

// gotRoster records which recipients came to a node or left it.
func (c *Cluster) gotRoster(m *message) {
	r, err := decodeRoster(m.body)
	if err != nil {
		c.counts.undecoded.Add(1)
		return
	}
	ws := &c.presence.backups
	c.presence.mu.Lock()
	w := ws.by[m.from]
	switch {
	case r.Over:
		delete(ws.by, m.from)
	case r.All:
		w = &backedUp{names: map[string]*names{}}
		ws.by[m.from] = w
		w.note(&r)
	case w != nil && r.N == w.got+1:
		w.note(&r)
	default: // the number in the next heartbeat will show that a report is missing
	}
	c.presence.mu.Unlock()
}

func (w *backedUp) note(r *roster) {
	w.got = r.N
	for app, came := range r.Came {
		of := w.names[app]
		if of == nil {
			of = newNames()
			w.names[app] = of
		}
		for _, name := range came {
			of.add(name)
		}
	}
	for app, left := range r.Left {
		of := w.names[app]
		if of == nil {
			continue
		}
		for _, name := range left {
			of.remove(name)
		}
		if of.n == 0 {
			delete(w.names, app)
		}
	}
}

// checkRoster requests all names of a node if this node is its backup and has missed a message.
func (c *Cluster) checkRoster(boot string, b beat) {
	p := &c.presence
	p.mu.Lock()
	w := p.backups.by[boot]
	lacks := b.Backup == c.cfg.Boot && b.Roster > 0 && (w == nil || w.got < b.Roster)
	p.mu.Unlock()
	if lacks {
		_ = c.publish(oneNode+boot, message{kind: kindNoRoster})
	}
}

// bury claims that the recipients of a dead node have left. The other nodes object if a recipient is connected to them. p.mu is held.
func (c *Cluster) bury(boot string) {
	ws := &c.presence.backups
	w := ws.by[boot]
	if delete(ws.by, boot); w == nil {
		return
	}
	for app, of := range w.names {
		for name := range of.all() {
			at := mailbox.Address{App: app, Recipient: name}
			if c.present(at, 0) == 0 && c.presence.claims.open[at] == nil {
				c.claim(at, false)
			}
		}
	}
}
