package call

import "godwit.dev/godwit/internal/access"

// Route is one entry of the API.
type Route struct {
	Pattern string      // of net/http's mux: method and path
	Role    access.Role // that a key needs; 0: the call needs no key
	Serve   func(c *Call) error
	Action  string // its name in the audit log; empty: the log leaves it out
	Stream  bool   // the answer has no end; deadlines are the handler's business
}
