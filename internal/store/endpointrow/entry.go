package endpointrow

import "godwit.dev/godwit/internal/campaigns/audience"

// Entry is one row that serves to find an endpoint. It is comparable.
type Entry struct {
	Table EntryTable
	Name  int64 // of the tag or attribute
	Text  string
	Num   float64
}

// EntryTable is the table of an entry.
type EntryTable uint8

// The tables of entries.
const (
	Tag EntryTable = iota
	Text
	Number
)

// Entries returns the rows that serve to find an endpoint; a disabled one has none. number looks up the number of a tag or an attribute.
func Entries(e *audience.Endpoint, number func(*Names, string) (int64, error)) (map[Entry]bool, error) {
	if e.Status != audience.Active || len(e.Tags)+len(e.Attributes) == 0 {
		return nil, nil
	}
	all := make(map[Entry]bool, len(e.Tags)+len(e.Attributes))
	for _, t := range e.Tags {
		id, err := number(&Tags, t)
		if err != nil {
			return nil, err
		}
		all[Entry{Table: Tag, Name: id}] = true
	}
	for name, v := range e.Attributes {
		id, err := number(&Attributes, name)
		if err != nil {
			return nil, err
		}
		one := Entry{Table: Number, Name: id}
		if text, ok := v.Text(); ok {
			one.Table, one.Text = Text, text
		} else {
			one.Num, _ = v.Number()
		}
		all[one] = true
	}
	return all, nil
}
