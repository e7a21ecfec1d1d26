// Package rights holds one table of rights to topics and requests and checks it on every way in: each subscribes,
// publishes, serves and asks in its own manner, and the messages that arrive decide. A new way in adds itself to the
// lists; a new rule adds lines to the tables.
package rights
