package pace

import (
	"sync"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// maxScopes limits the remembered scopes and chats. Strangers can create origins: beyond the limit, long-idle scopes are dropped, which
// only makes them start slowly again.
const maxScopes = 10_000

// Scope identifies a pacer: scopes of two apps are separate.
type Scope struct {
	App     string
	Channel push.Channel
	Name    string
}

// Scopes holds all scopes to which messages are being sent, with the chats within them.
type Scopes struct {
	mu      sync.Mutex
	scopes  map[Scope]*Pacer
	chats   map[Scope]time.Time // when each may get its next message
	blocked map[Scope]string    // scopes whose credential was refused, and why
}

// NewScopes makes an empty set.
func NewScopes() *Scopes {
	return &Scopes{scopes: make(map[Scope]*Pacer), chats: make(map[Scope]time.Time), blocked: make(map[Scope]string)}
}

// Of finds or makes a scope's pacer, and returns the reason if the scope is blocked; "": it is not.
func (ps *Scopes) Of(s Scope, pace push.Pace, now time.Time) (p *Pacer, refused string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, refused = ps.scopes[s], ps.blocked[s]
	if p == nil {
		if len(ps.scopes) >= maxScopes {
			ps.forget(now)
		}
		if len(ps.scopes) >= maxScopes {
			s = Scope{App: s.App, Channel: s.Channel} // during a flood of origins, the new ones share one pacer
			if p = ps.scopes[s]; p != nil {
				return p, refused
			}
		}
		p = New(pace.Rate, now)
		ps.scopes[s] = p
	}
	return p, refused
}

func (ps *Scopes) forget(now time.Time) {
	for s, p := range ps.scopes {
		p.mu.Lock()
		idle := now.Sub(p.tat) > time.Minute && now.After(p.until)
		p.mu.Unlock()
		if idle {
			delete(ps.scopes, s)
		}
	}
}

// Chat returns the time at which a chat may get its next message; ok reports whether that is now.
func (ps *Scopes) Chat(s Scope, now time.Time) (at time.Time, ok bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	at = ps.chats[s]
	return at, !at.After(now)
}

// SentTo records that a message leaves for a chat.
func (ps *Scopes) SentTo(s Scope, at time.Time, every time.Duration) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.chats) >= maxScopes {
		for c, next := range ps.chats {
			if next.Before(at) {
				delete(ps.chats, c)
			}
		}
	}
	ps.chats[s] = at.Add(every)
}

// Blocked counts the scopes of each channel that are blocked.
func (ps *Scopes) Blocked() map[push.Channel]int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	n := make(map[push.Channel]int)
	for s := range ps.blocked {
		n[s.Channel]++
	}
	return n
}

// Block stops a scope until unblock.
func (ps *Scopes) Block(s Scope, reason string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.blocked) < maxScopes {
		ps.blocked[s] = reason
	}
}

// Unblock lets an app's scopes be tried again after a person has checked the credential.
func (ps *Scopes) Unblock(app string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for s := range ps.blocked {
		if s.App == app {
			delete(ps.blocked, s)
		}
	}
}
