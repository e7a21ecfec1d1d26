// Package redisstream keeps mailboxes in Redis streams that the publishers of another notification service fill: it finds
// entries, hands them to sessions, deletes acknowledged and expired ones, and sets aside unreadable ones. DESIGN.md gives the
// reasons for its design.
package redisstream
