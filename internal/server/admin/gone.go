package admin

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
)

// gone is what the page after a deletion says, with a form that brings the deleted thing back.
type gone struct {
	Text string // that it is deleted
	Path string // of the deleted thing
	Was  string // all of it: its JSON in base64, since JSON itself would be several times as long in HTML
}

func newGone(text, path string, was any) (*gone, error) {
	b, err := json.Marshal(was)
	if err != nil {
		return nil, fmt.Errorf("encode what was deleted at %s: %w", path, err)
	}
	return &gone{text, path, base64.StdEncoding.EncodeToString(b)}, nil
}

// bringBack reads what was deleted from the form of a gone.
func bringBack(v *visit, was any) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	b, err := base64.StdEncoding.DecodeString(v.r.PostForm.Get("was"))
	if err != nil || json.Unmarshal(b, was) != nil {
		return mistaken(http.StatusBadRequest, "The form could not be read.")
	}
	return nil
}
