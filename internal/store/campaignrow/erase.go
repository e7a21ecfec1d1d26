package campaignrow

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
)

// WithoutRecipient returns a stored spec whose audience no longer names a recipient; ok is false if it never did. A random name replaces
// the recipient's, since an audience without names means everybody.
func WithoutRecipient(spec, recipient string) (changed string, ok bool, err error) {
	var all, audience map[string]json.RawMessage
	var names []string
	if err := json.Unmarshal([]byte(spec), &all); err != nil {
		return "", false, fmt.Errorf("read a campaign: %w", err)
	}
	if json.Unmarshal(all["audience"], &audience) != nil || json.Unmarshal(audience["recipients"], &names) != nil {
		return "", false, nil // it names nobody
	}
	for i := range names {
		if names[i] == recipient {
			names[i], ok = "erased."+rand.Text(), true
		}
	}
	if !ok {
		return "", false, nil
	}
	if audience["recipients"], err = json.Marshal(names); err == nil {
		all["audience"], err = json.Marshal(audience)
	}
	var b []byte
	if err == nil {
		b, err = json.Marshal(all)
	}
	if err != nil {
		return "", false, fmt.Errorf("write a campaign: %w", err)
	}
	return string(b), true, nil
}
