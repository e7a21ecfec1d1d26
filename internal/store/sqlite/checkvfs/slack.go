package checkvfs

import "encoding/binary"

// slackMost is the file offset up to which unused space in pages is cleared. The first byte of a page gives its kind, except for pages that
// begin with a page number: the first byte of a page number is 0 in files of less than 128 GB with any page size.
const slackMost = 32 << 30

// Kinds of pages of tables and indexes, and the sizes of their headers (https://sqlite.org/fileformat2.html#b_tree_pages).
const (
	innerIndex, innerTable, leafIndex, leafTable = 2, 5, 10, 13

	innerHead, leafHead = 12, 8
	fileHead            = 100 // before the header of the first page
)

// clearSlack clears the space between the pointers and the cells of a table's or an index's page. SQLite leaves remains of moved rows
// there, which would survive the deletion of these rows. A page with an unexpected layout stays unchanged.
func clearSlack(p []byte, offset int64) {
	if offset+int64(len(p)) > slackMost || len(p) < 512 || offset%int64(len(p)) != 0 {
		return
	}
	at := 0
	if offset == 0 {
		at = fileHead
	}
	head := leafHead
	switch p[at] {
	case innerIndex, innerTable:
		head = innerHead
	case leafIndex, leafTable:
	default:
		return
	}
	cells := int(binary.BigEndian.Uint16(p[at+3:]))
	from, to := at+head+2*cells, int(binary.BigEndian.Uint16(p[at+5:]))
	if to == 0 {
		to = 1 << 16
	}
	if to > len(p) || from > to {
		return
	}
	for i := at + head; i < from; i += 2 {
		if cell := int(binary.BigEndian.Uint16(p[i:])); cell < to || cell >= len(p) {
			return
		}
	}
	clear(p[from:to])
}
