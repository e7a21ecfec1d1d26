package move

// Tables lists the source and target tables of the copy, by the name of the file or schema and of the table.
func Tables() (list [][2]string) {
	for _, p := range newParts() {
		if t, ok := p.(*table); ok {
			list = append(list, [2]string{t.schema, t.table})
		}
	}
	return append(list, [2]string{"godwit_mailbox", "recipient"}, [2]string{"godwit_mailbox", "notification"})
}
