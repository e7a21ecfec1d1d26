package call

import "godwit.dev/godwit/internal/access"

// Route is one call of the API.
type Route struct {
	Pattern  string      // pattern of net/http's mux: method and path
	Role     access.Role // role that the call's key needs; 0: the call needs no key
	Operator Operator    // whether the operator key may make the call
	Basic    bool        // the key may also be the password of HTTP's basic authentication, for tools that know no other
	Serve    func(c *Call) error
	Action   string // its name in the audit log; empty: the call is not recorded
	Stream   bool   // the answer has no end; the handler sets its own deadlines
}

// Operator says how the operator key makes a call.
type Operator uint8

// Ways of an operator. The zero value: the operator key may not make the call.
const (
	AnyApp     Operator = iota + 1 // about the app that the query names, or the only one
	ServerWide                     // about no app, and only with the operator key
	AppOrAll                       // about the app that the query names, or else about the server
)
