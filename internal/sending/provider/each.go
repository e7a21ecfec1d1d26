package provider

import (
	"sync"

	"godwit.dev/godwit/internal/sending/push"
)

// eachAtOnce is how many messages of a batch are under way at the same time: about what one HTTP/2 connection carries.
const eachAtOnce = 32

// Each does something with each message of a batch, several at a time, and returns the errors in order.
func Each(sent []push.Sent, do func(*push.Sent) error) []error {
	errs := make([]error, len(sent))
	slots := make(chan struct{}, eachAtOnce)
	var wg sync.WaitGroup
	for i := range sent {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(&sent[i])
		})
	}
	wg.Wait()
	return errs
}
