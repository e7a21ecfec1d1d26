package watch

import (
	"fmt"
	"time"
)

// Advice is a condition that somebody should handle, with instructions.
type Advice struct {
	About string // its subject in a word: disk, hook, node
	Grave bool   // something does not work; false: it may soon stop working
	Text  string
	Hint  string
}

// State is the state of a server and of an app on it. The zero value needs no advice.
type State struct {
	Damaged, Full       bool
	Free, Least         string // free space on the disk, and the space below which nothing is stored
	Short               bool   // less than twice Least is free
	Behind              int64  // operations that wait for the store's writer
	Dropped             uint64 // events that the event log could not store in the last hour
	Draining            bool
	Turned              uint64 // connections that were refused in the last hour
	Failed              uint64 // calls that failed in the last hour
	BusAway, StoreAway  bool
	Missing             []Lost // nodes
	Certificates        []Certificate
	Refused             []string // channels whose provider refuses the credentials
	Hooks, Sinks, Takes []Trouble
}

// Certificate is one that ends.
type Certificate struct {
	To   string // whom it is shown to
	Ends time.Time
}

// Trouble is a hook, a sink or a source that has stopped working.
type Trouble struct {
	Name, State, Error string
	Since              time.Time
}

const (
	// soon is the time before a certificate's end from which it is worth a warning, as in godwit doctor.
	soon = 21 * 24 * time.Hour
	// behind is the number of waiting operations at which the disk is too slow: more than one commit takes.
	behind = 10_000
)

// Advise lists the conditions that somebody should handle, the most serious first.
func (s *State) Advise(now time.Time) (list []Advice) {
	grave := func(about, hint, text string, args ...any) {
		list = append(list, Advice{about, true, fmt.Sprintf(text, args...), hint})
	}
	note := func(about, hint, text string, args ...any) {
		list = append(list, Advice{about, false, fmt.Sprintf(text, args...), hint})
	}
	if s.Damaged {
		grave("store", "Stop the server and run godwit doctor --repair.", "Stored data is damaged, and nothing is stored any more.")
	}
	if s.StoreAway {
		grave("store", "Look at the database server and the network to it; publishes are answered 503 until it is back.", "The store does not answer.")
	}
	if s.Full {
		grave("disk", "Free space on the disk of the data folder; publishes are taken again by themselves.", "Publishes are refused: the disk has %s left, and %s are kept free (min_free).", s.Free, s.Least)
	}
	if s.BusAway {
		grave("bus", "Look at the NATS server and the network to it.", "The external NATS does not answer: nothing goes between nodes, topics and requests.")
	}
	for _, n := range s.Missing {
		hint := "Look at the network between the nodes, and at the log of both for what the message bus says."
		if n.Ended {
			hint = "Start it again; if it was taken away for good, take it off the list: godwit cluster forget " + n.Name
		}
		if n.Silent == 0 {
			grave("node", hint, "Node %s has never been heard: %s.", n.Name, n.Why)
		} else {
			grave("node", hint, "Node %s has not been heard for %s: %s.", n.Name, n.Silent.Round(time.Second), n.Why)
		}
	}
	for _, ch := range s.Refused {
		grave("channel", "Set the channel's credentials anew and test it; what waits is sent then.", "The provider of %s refuses the credentials: nothing is sent over it.", ch)
	}
	s.troubles(grave)
	s.notes(now, grave, note)
	return list
}

type say func(about, hint, text string, args ...any)

func (s *State) troubles(grave say) {
	for _, of := range []struct {
		what, hint string
		list       []Trouble
	}{
		{"hook", "Mend the receiver, then resume the hook.", s.Hooks},
		{"sink", "Mend what the error names; a sink that stopped goes on when it is set again.", s.Sinks},
		{"source", "Mend what the error names; it is tried again by itself.", s.Takes},
	} {
		for _, t := range of.list {
			text := fmt.Sprintf("The %s %s is %s", of.what, t.Name, t.State)
			if !t.Since.IsZero() {
				text += " since " + t.Since.UTC().Format("2 Jan, 15:04 UTC")
			}
			if t.Error != "" {
				text += ": " + t.Error
			}
			grave(of.what, of.hint, "%s.", text)
		}
	}
}

func (s *State) notes(now time.Time, grave, note say) {
	for _, c := range s.Certificates {
		const hint = "Put a new certificate in the place of the old files; they are read again by themselves."
		switch left := c.Ends.Sub(now); {
		case left <= 0:
			grave("certificate", hint, "The certificate that is shown to %s has ended on %s.", c.To, c.Ends.UTC().Format("2 Jan 2006"))
		case left < soon:
			note("certificate", hint, "The certificate that is shown to %s ends in %d days, on %s.", c.To, int(left/(24*time.Hour)), c.Ends.UTC().Format("2 Jan 2006"))
		}
	}
	if s.Short && !s.Full {
		note("disk", "Free space on the disk of the data folder, or keep settled notifications for less long (retain).", "The disk has %s left; below %s (min_free) publishes are refused.", s.Free, s.Least)
	}
	if s.Behind > behind {
		note("store", "The disk is too slow for what is published: see what else uses it, or publish in batches.", "%d operations wait to be stored.", s.Behind)
	}
	if s.Dropped > 0 {
		note("events", "They are made anew from the mailbox; a faster disk loses none.", "The event log could not take %d events in the last hour.", s.Dropped)
	}
	if s.Turned > 0 {
		note("connections", "Raise limit_connects, max_connections_per_address or max_connections if they were clients of yours. The page Gateway says why each was refused.", "%d connections were refused in the last hour.", s.Turned)
	}
	if s.Failed > 0 {
		note("calls", "The page Log says which, and why.", "%d calls to the API failed in the last hour for reasons of the server's own.", s.Failed)
	}
	if s.Draining {
		note("node", "Sessions move to other nodes; nothing else is to be done.", "This node is draining.")
	}
}
