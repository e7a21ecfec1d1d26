package mailboxdb

import (
	"hash/maphash"
	"sync"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// fewTold is the number of copies for which a second goroutine does not pay.
const fewTold = 64

// tellInParts reports a commit on several goroutines, each for recipients of its own, and returns when all is reported: so the order of each recipient is
// that of its lane's commits.
func tellInParts(obs mailbox.Observer, b *mailbox.Batch, tellers int) {
	n := min(tellers, b.Size()/fewTold)
	if n < 2 {
		obs.Committed(b)
		return
	}
	seed, parts := maphash.MakeSeed(), make([]mailbox.Batch, n)
	b.Divide(func(recipient string) *mailbox.Batch { return &parts[maphash.String(seed, recipient)%uint64(n)] }) // positive
	var others sync.WaitGroup
	for i := range parts[1:] {
		others.Go(func() { tellPart(obs, &parts[i+1]) })
	}
	tellPart(obs, &parts[0])
	others.Wait()
}

func tellPart(obs mailbox.Observer, part *mailbox.Batch) {
	if part.Size() > 0 {
		obs.Committed(part)
	}
}
