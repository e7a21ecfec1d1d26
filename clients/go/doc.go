// Package godwit publishes notifications and signals to a Godwit server and listens for them.
//
// A back end makes a Client with an API key and calls Publish; it returns once the notification is on the server's
// disk. A recipient's program makes one with a token and calls Listen; its handler is called for every notification
// and returning nil acknowledges it. Publishes are retried under the same id, listeners reconnect and resume, so a
// notification arrives at least once and the handler sees it once, unless the program itself was restarted in between.
//
// Objects are signals: "object X is at version v". A back end calls PutObject; a recipient's program registers for
// objects with NewObjects and gives them to Listen with Follow. Even if either side loses its state, the program
// eventually learns the latest version of each object that it is registered for; versions in between may be left out,
// and versions only grow.
//
// A worker answers requests to subjects with Serve, or those made to its recipient with Answers; Ask and AskRecipient ask.
// Reply answers a notification.
//
// With a Deduplicator a program shows a notification once that comes both live and by push; AckTokens acknowledges with
// the token that a push brings.
//
// All methods are safe for concurrent use. Every error that the server answered is, or wraps, an *Error.
package godwit
