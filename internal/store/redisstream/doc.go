// Package redisstream keeps mailboxes that are Redis streams, as publishers of another notification service fill them: it finds
// entries, hands them to sessions, deletes those that were acknowledged or have expired, and sets aside what cannot be read.
// DESIGN.md says why it is as it is.
package redisstream
