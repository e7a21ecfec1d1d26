package move

// Tables lists what is copied from and to, by the file's or the schema's name and the table's.
func Tables() (list [][2]string) {
	for _, p := range newParts() {
		if t, ok := p.(*table); ok {
			list = append(list, [2]string{t.schema, t.table})
		}
	}
	return append(list, [2]string{"godwit_mailbox", "recipient"}, [2]string{"godwit_mailbox", "notification"})
}
