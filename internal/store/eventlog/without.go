package eventlog

// Without returns a stored chunk without the events of a recipient; nil: it contains none of them. Other events keep their ids. The result
// may have no events. brief tells the encoding of the chunks' store: see NewQueue.
func Without(app, data string, last uint64, recipient string, brief bool) (*Chunk, error) {
	evs, err := Decode(app, data, last)
	if err != nil {
		return nil, err
	}
	left := &Chunk{App: app}
	if brief {
		left.names = newBrief()
	}
	for i := range evs {
		if evs[i].To != recipient {
			left.append(evs[i].ID, &evs[i])
		}
	}
	left.names = nil
	if left.N == len(evs) {
		return nil, nil // there is nothing to change
	}
	return left, nil
}
