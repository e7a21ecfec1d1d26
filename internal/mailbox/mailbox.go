// Package mailbox keeps what waits for a recipient: append, pending, acknowledgement, expiry, redelivery. The store
// beneath it is an interface; sessions and back ends come to it from above.
package mailbox
