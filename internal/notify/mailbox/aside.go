package mailbox

import "context"

// Aside keeps copies that are in no mailbox, since they wait for a digest or went into one.
type Aside interface {
	// Gathers reports whether there may be copies of an app.
	Gathers(app string) bool
	// Lookup finds copies by id, for one recipient, or for all if to is empty.
	Lookup(ctx context.Context, app, id, to string) ([]Record, error)
	// Recall takes waiting copies out of their digests. n is their number; found reports whether there are any copies of the id.
	Recall(ctx context.Context, app, id, to string) (n int, found bool, err error)
}

// LookAside makes Lookup, Copies and Recall see the copies that are kept aside. It must be called before the first of these.
func (m *Mailbox) LookAside(a Aside) { m.aside = a }

// beside adds the copies of a notification that are kept aside to those of the store.
func (m *Mailbox) beside(ctx context.Context, app, id, to string, list []Record) ([]Record, error) {
	if m.aside == nil || to != "" && len(list) > 0 || !m.aside.Gathers(app) {
		return list, nil
	}
	more, err := m.aside.Lookup(ctx, app, id, to)
	if err != nil {
		return nil, err
	}
	return append(list, more...), nil
}

// recallAside recalls the copies that are kept aside.
func (m *Mailbox) recallAside(ctx context.Context, app, id, to string) (n int, found bool, err error) {
	if m.aside == nil || !m.aside.Gathers(app) {
		return 0, false, nil
	}
	return m.aside.Recall(ctx, app, id, to)
}
