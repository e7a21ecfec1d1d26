// Package rights holds one table of who may do what with topics and requests, and checks it on every way in: each
// subscribes, publishes, serves and asks as it is done there, and what arrives is what counts. A new way in adds itself to
// the lists; a new rule adds lines to the tables.
package rights
