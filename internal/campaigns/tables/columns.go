package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
)

// Column is a column of a table and its interpretation.
type Column struct {
	Heading string   // as the file has it
	Name    string   // of the registration's field, or of the attribute
	Samples []string // the first cells that are not empty
	use     use
	kind    kind
	said    bool   // its heading says which kind
	why     string // the cell because of which the column is text
}

type use uint8

const (
	part      use = iota // of a registration
	address              // a part of its address
	attribute            // of its own name
	members              // a JSON object of attributes
	heeded               // decides whether the line is registered
	dropped              // not stored
)

// shownSamples is the number of a column's cells that a preview shows.
const shownSamples = 3

// Becomes describes how a column is used.
func (c *Column) Becomes() string {
	switch c.use {
	case address:
		return "address: " + c.Name
	case attribute:
		said := "attribute " + c.Name + ", " + c.kind.String()
		if c.why != "" {
			said += fmt.Sprintf(", since %.20q is among them", c.why)
		}
		return said
	case members:
		return "attributes"
	case heeded:
		return "says who is left out"
	case dropped:
		return "not stored"
	}
	return c.Name
}

// Attribute reports whether the column becomes an attribute.
func (c *Column) Attribute() bool { return c.use == attribute }

// Typed reports whether the cells have a type other than text. A single cell that does not fit makes all cells text, but the column still
// counts as typed.
func (c *Column) Typed() bool { return c.kind == number || c.kind == truth || c.why != "" }

// Dropped reports whether the column is not stored.
func (c *Column) Dropped() bool { return c.use == dropped }

// parts maps the columns that fill fields of a registration to their uses.
var parts = map[string]use{
	"id": part, "channel": part, "recipient": part, "address": part, "subscription": part, "tags": part, "locale": part, "timezone": part, "status": heeded,
	"endpoint": address, "p256dh": address, "auth": address, "chat_id": address, "token": address, "url": address, "attributes": members,
}

// otherNames maps column names of other programs.
var otherNames = map[string]string{"key_p256dh": "p256dh", "key_auth": "auth", "web_p256": "p256dh", "web_auth": "auth", "uuid": "id"}

// oneSignal maps column names in OneSignal's export. Its identifier is an address, whose kind device_type determines.
var oneSignal = map[string]string{"identifier": "identifier", "external_user_id": "recipient", "language": "locale", "invalid_identifier": "invalid_identifier"}

// notes are the columns of Godwit's exports that an import ignores, because the new endpoint has its own values.
var notes = []string{"created_at", "last_seen_at", "disabled_reason"}

// normal converts a heading to the form of names.
func normal(heading string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || c == '-' {
			return '_'
		}
		return unicode.ToLower(c)
	}, strings.TrimFunc(heading, notPart))
}

// notPart reports whether a character around a heading is ignored: spaces and invisible characters.
func notPart(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' || c == '\u200b' }

func knownColumn(heading string) (string, bool) {
	name := normal(heading)
	if other, ok := otherNames[name]; ok {
		name = other
	}
	_, ok := parts[name]
	return name, ok
}

// table holds what the headings determine for the whole table.
type table struct {
	ours      bool // Godwit's own export
	oneSignal bool
	uuid      bool // there is a column uuid, so id is a row number in the source database
}

func tableOf(heads []string) (t table) {
	names := make([]string, len(heads))
	for i, h := range heads {
		names[i] = normal(h)
	}
	has := func(want ...string) bool {
		return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) })
	}
	t.ours = has("id", "channel", "status", "created_at", "last_seen_at", "disabled_reason")
	t.oneSignal = has("identifier") && (has("device_type") || has("invalid_identifier") || has("web_auth"))
	t.uuid = has("uuid")
	return t
}

// columns reads the headings.
func columns(heads []string) (list []Column, t table, err error) {
	t = tableOf(heads)
	taken := map[string]string{}
	for i, heading := range heads {
		c := Column{Heading: strings.TrimFunc(heading, notPart)}
		if c.Heading == "" {
			c.use, c.Name = dropped, "" // from a trailing separator: a line with text in this cell is rejected
			list = append(list, c)
			continue
		}
		if err := t.read(&c); err != nil {
			return nil, t, fmt.Errorf("column %d: %w", i+1, err)
		}
		if first, twice := taken[c.Name]; twice && c.use != dropped {
			return nil, t, fmt.Errorf("column %d: %q and %q both say %s", i+1, notification.Clip(first), notification.Clip(c.Heading), c.Name)
		}
		if c.use != dropped {
			taken[c.Name] = c.Heading
		}
		list = append(list, c)
	}
	if len(taken) == 0 {
		return nil, t, errors.New("the first line names no columns")
	}
	return list, t, nil
}

// read determines how a column is interpreted.
func (t *table) read(c *Column) error {
	name := normal(c.Heading)
	if other, ok := oneSignal[name]; ok && t.oneSignal {
		name = other
		switch name {
		case "identifier":
			c.Name, c.use = name, address
			return nil
		case "invalid_identifier":
			c.Name, c.use = name, heeded
			return nil
		}
	}
	switch known, ok := knownColumn(name); {
	case name == "id" && t.uuid:
		c.Name, c.use = name, dropped
		return nil
	case ok:
		c.Name, c.use = known, parts[known]
		return nil
	case t.ours && slices.Contains(notes, name):
		c.Name, c.use = name, dropped
		return nil
	}
	c.use = attribute
	heading, kinds := c.Heading, map[string]kind{":text": text, ":number": number, ":bool": truth}
	for suffix, k := range kinds {
		if rest, ok := strings.CutSuffix(heading, suffix); ok {
			heading, c.kind, c.said = strings.TrimSpace(rest), k, true
		}
	}
	rest, own := strings.CutPrefix(heading, audience.AttributesPrefix)
	if own && t.ours && !c.said {
		c.kind = ours
	}
	for _, c.Name = range []string{rest, spelled(rest)} {
		if audience.CheckAttributeName(c.Name) == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is neither a known column nor a name for an attribute: write letters, digits, _ . - after a letter", notification.Clip(c.Heading))
}

// spelled converts a heading to the name of an attribute, with _ for invalid characters: user id becomes user_id.
func spelled(heading string) string {
	words := strings.FieldsFunc(heading, func(c rune) bool {
		return unicode.IsSpace(c) || c < unicode.MaxASCII && unicode.IsPunct(c) && c != '.' && c != '-'
	})
	return strings.Join(words, "_")
}
