package watch

import (
	"fmt"
	"strings"
	"time"
)

// Advice is a condition that somebody should handle, with instructions. Its texts are English ones with a %s for each argument, so that the
// console can say them in other languages.
type Advice struct {
	About string // its subject in a word: disk, hook, node
	Grave bool   // something does not work; false: it may soon stop working
	Said  string
	Many  string // Said for other numbers than one, which the first argument is; "": it counts nothing
	Args  []any  // a Word is said in the reader's language too
	Hint  string // what is to be done; a %s stands for the first argument
}

// Word is an argument of an advice that is a word of English, and no name.
type Word string

// Text says the condition in English.
func (a *Advice) Text() string {
	text, args := a.Said, make([]any, len(a.Args))
	if a.Many != "" && a.Args[0] != int64(1) {
		text = a.Many
	}
	for i, arg := range a.Args {
		if at, ok := arg.(time.Time); ok {
			arg = at.UTC().Format("2 Jan 2006, 15:04 UTC")
		}
		args[i] = fmt.Sprint(arg)
	}
	return fmt.Sprintf(text, args...)
}

// Do says in English what is to be done.
func (a *Advice) Do() string {
	if strings.Contains(a.Hint, "%s") {
		return fmt.Sprintf(a.Hint, a.Args[0])
	}
	return a.Hint
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
		list = append(list, Advice{About: about, Grave: true, Said: text, Args: args, Hint: hint})
	}
	note := func(about, hint, text string, args ...any) {
		list = append(list, Advice{About: about, Said: text, Args: args, Hint: hint})
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
			hint = "Start it again; if it was taken away for good, take it off the list: godwit cluster forget %s"
		}
		if n.Silent == 0 {
			grave("node", hint, "Node %s has never been heard: %s.", n.Name, Word(n.Why))
		} else {
			grave("node", hint, "Node %s has not been heard for %s: %s.", n.Name, n.Silent.Round(time.Second), Word(n.Why))
		}
	}
	for _, ch := range s.Refused {
		grave("channel", "Set the channel's credentials anew and test it; what waits is sent then.", "The provider of %s refuses the credentials: nothing is sent over it.", ch)
	}
	s.troubles(grave)
	s.notes(now, grave, note)
	s.counts(func(n int64, about, hint, one, many string) {
		list = append(list, Advice{About: about, Said: one, Many: many, Args: []any{n}, Hint: hint})
	})
	if s.Draining {
		note("node", "Sessions move to other nodes; nothing else is to be done.", "This node is draining.")
	}
	return list
}

type say func(about, hint, text string, args ...any)

func (s *State) troubles(grave say) {
	for i := range s.Hooks {
		s.Hooks[i].say(grave, "hook", "Mend the receiver, then resume the hook.",
			"The hook %s is %s.", "The hook %s is %s: %s.", "The hook %s is %s since %s.", "The hook %s is %s since %s: %s.")
	}
	for i := range s.Sinks {
		s.Sinks[i].say(grave, "sink", "Mend what the error names; a sink that stopped goes on when it is set again.",
			"The sink %s is %s.", "The sink %s is %s: %s.", "The sink %s is %s since %s.", "The sink %s is %s since %s: %s.")
	}
	for i := range s.Takes {
		s.Takes[i].say(grave, "source", "Mend what the error names; it is tried again by itself.",
			"The source %s is %s.", "The source %s is %s: %s.", "The source %s is %s since %s.", "The source %s is %s since %s: %s.")
	}
}

// say chooses the text that has room for the error and the time of the beginning, if they are known.
func (t *Trouble) say(grave say, about, hint, is, why, since, both string) {
	name, state := t.Name, Word(t.State)
	switch {
	case t.Since.IsZero() && t.Error == "":
		grave(about, hint, is, name, state)
	case t.Since.IsZero():
		grave(about, hint, why, name, state, t.Error)
	case t.Error == "":
		grave(about, hint, since, name, state, t.Since)
	default:
		grave(about, hint, both, name, state, t.Since, t.Error)
	}
}

func (s *State) notes(now time.Time, grave, note say) {
	for _, c := range s.Certificates {
		const hint = "Put a new certificate in the place of the old files; they are read again by themselves."
		switch left := c.Ends.Sub(now); {
		case left <= 0:
			grave("certificate", hint, "The certificate that is shown to %s has ended on %s.", Word(c.To), c.Ends)
		case left < soon:
			note("certificate", hint, "The certificate that is shown to %s ends on %s.", Word(c.To), c.Ends)
		}
	}
	if s.Short && !s.Full {
		note("disk", "Free space on the disk of the data folder, or keep settled notifications for less long (retain).", "The disk has %s left; below %s (min_free) publishes are refused.", s.Free, s.Least)
	}
}

// counts says what happened so many times.
func (s *State) counts(counted func(n int64, about, hint, one, many string)) {
	if s.Behind > behind {
		counted(s.Behind, "store", "The disk is too slow for what is published: see what else uses it, or publish in batches.", "%s operation waits to be stored.", "%s operations wait to be stored.")
	}
	if s.Dropped > 0 {
		counted(int64(s.Dropped), "events", "They are made anew from the mailbox; a faster disk loses none.",
			"The event log could not take %s event in the last hour.", "The event log could not take %s events in the last hour.")
	}
	if s.Turned > 0 {
		counted(int64(s.Turned), "connections", "Raise limit_connects, max_connections_per_address or max_connections if they were clients of yours. The page Gateway says why each was refused.",
			"%s connection was refused in the last hour.", "%s connections were refused in the last hour.")
	}
	if s.Failed > 0 {
		counted(int64(s.Failed), "calls", "The page Log says which, and why.",
			"%s call to the API failed in the last hour for reasons of the server's own.", "%s calls to the API failed in the last hour for reasons of the server's own.")
	}
}
