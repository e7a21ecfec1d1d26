package module

import "time"

// View is the content of a page: a sentence or two, figures, and tables. Titles, labels, headings and words are said in the reader's language where the
// console's catalogues have them.
type View struct {
	Text    string
	Figures []Figure
	Tables  []Table
	// Headings and Rows are a table that is shown as it is.
	Headings []string
	Rows     [][]string
}

// Figure is a number with what it counts, in small letters: devices.
type Figure struct {
	Count int64
	Label string
}

// Table is a table with its title. Text is about the whole; Empty is said where there are no rows.
type Table struct {
	Title, Text, Empty string
	Headings           []string
	Rows               [][]Cell
}

// Cell is a cell of a table: one of its fields is set.
type Cell struct {
	Word  string // in the reader's language
	Name  string // as it is: a name of a metric or a device
	Count *int64
	At    time.Time
}

// Word is a cell with a text in the reader's language.
func Word(text string) Cell { return Cell{Word: text} }

// Name is a cell with a text as it is.
func Name(text string) Cell { return Cell{Name: text} }

// Count is a cell with a number of things.
func Count(n int64) Cell { return Cell{Count: &n} }

// At is a cell with a moment.
func At(t time.Time) Cell { return Cell{At: t} }
