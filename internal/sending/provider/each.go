package provider

import (
	"sync"

	"godwit.dev/godwit/internal/sending/push"
)

// eachAtOnce limits the messages of a batch that are under way at the same time: about as many as one HTTP/2 connection carries.
const eachAtOnce = 32

// Each calls do for each message of a batch, several at a time, and returns the errors in the messages' order.
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
