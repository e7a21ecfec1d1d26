package mailbox

// Size returns how many copies and inboxes a batch names.
func (b *Batch) Size() int {
	return len(b.Stored) + len(b.Due) + len(b.Settled) + len(b.Inboxes)
}

// Divide appends what a batch names to the parts of its recipients, in the same order. A recipient must always have the same part.
func (b *Batch) Divide(part func(recipient string) *Batch) {
	for i := range b.Stored {
		to := part(b.Stored[i].Recipient)
		to.Stored = append(to.Stored, b.Stored[i])
	}
	for i := range b.Due {
		to := part(b.Due[i].Recipient)
		to.Due = append(to.Due, b.Due[i])
	}
	for i := range b.Settled {
		to := part(b.Settled[i].Recipient)
		to.Settled = append(to.Settled, b.Settled[i])
	}
	for i := range b.Inboxes {
		to := part(b.Inboxes[i].Recipient)
		to.Inboxes = append(to.Inboxes, b.Inboxes[i])
	}
}
