package escalation

import (
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// TestAnIDNamesOneSend: a step that is handed over again gets the same id, and any difference gives another id.
func TestAnIDNamesOneSend(t *testing.T) {
	d, e := mailbox.StepDue{App: "shop", Recipient: "r", ID: "n", Pos: 7, Step: 1, Channel: "fcm"}, audience.ID{1}
	first := ID(&d, e)
	if again := ID(&d, e); again != first {
		t.Errorf("%x and then %x", first, again)
	}
	if first[6]>>4 != 5 || first[8]>>6 != 2 {
		t.Errorf("%s is no UUID of version 5", text(first))
	}
	seen := map[[16]byte]string{first: "the first", ID(&d, audience.ID{2}): "another endpoint"}
	for what, change := range map[string]func(*mailbox.StepDue){
		"another app": func(d *mailbox.StepDue) { d.App = "other" }, "another recipient": func(d *mailbox.StepDue) { d.Recipient = "s" },
		"another notification": func(d *mailbox.StepDue) { d.ID = "m" }, "another copy of the id": func(d *mailbox.StepDue) { d.Pos = 8 },
		"another step": func(d *mailbox.StepDue) { d.Step = 2 },
	} {
		other := d
		change(&other)
		id := ID(&other, e)
		if seen[id] != "" {
			t.Errorf("%s has the id of %s", what, seen[id])
		}
		seen[id] = what
	}
	if len(seen) != 7 {
		t.Errorf("%d ids of 7 sends", len(seen))
	}
}
