package call

import "godwit.dev/godwit/internal/access"

// Route is one call of the API.
type Route struct {
	Pattern string      // pattern of net/http's mux: method and path
	Role    access.Role // role that the call's key needs; 0: the call needs no key
	Basic   bool        // the key may also be the password of HTTP's basic authentication, for tools that know no other
	Serve   func(c *Call) error
	Action  string // its name in the audit log; empty: the call is not recorded
	Stream  bool   // the answer has no end; the handler sets its own deadlines
}
