package store

import (
	"context"

	"godwit.dev/godwit/internal/store/redisstream"
)

// RedisConfig says which streams in Redis stand for the mailboxes of a service that Godwit stands in for.
type RedisConfig = redisstream.Config

// OpenRedis opens them. Run and Close must be called.
func OpenRedis(ctx context.Context, cfg RedisConfig) (*redisstream.Store, error) {
	return redisstream.Open(ctx, cfg)
}

// RedisRecipient is the recipient that a client id of that service stands for.
func RedisRecipient(client string) string { return redisstream.Recipient(client) }
